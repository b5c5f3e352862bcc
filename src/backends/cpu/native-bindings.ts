// The native bindings of the addon by a name inside src/. native/cpu/index.d.ts is their one source: it lies three folders
// up from here and from dist/backends/cpu/ alike, so the same path holds in the checkout and in the published package.

export type * from "../../../native/cpu/index.js";
