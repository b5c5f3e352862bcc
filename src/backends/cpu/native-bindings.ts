// Re-exports the types of the addon's bindings inside src/. native/cpu/index.d.ts is their only definition: it is three
// folders up from here and from dist/backends/cpu/ alike, so the same path works in the checkout and in the published
// package.

export type * from "../../../native/cpu/index.js";
