// Where the addon is looked for, and the reason and remedy if it is missing or does not fit. Stand-ins written in JavaScript: what
// is under test is the loader, and `.node` files are told apart from them by their bytes alone.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import packageJson from "../../../package.json" with { type: "json" };
import { BINDINGS_VERSION, loadAddon, PREBUILT_PLATFORMS } from "./addon.js";

const PLATFORM = `${process.platform}-${process.arch}`;
let folder = "";
let built = "";
let prebuilt = "";
const { cache } = createRequire(import.meta.url);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rocmforge-addon-"));
  built = join(folder, "native", "cpu", "build", "Release", "rocmforge_cpu.node");
  prebuilt = join(folder, "node_modules", "@rocmforge", `cpu-${PLATFORM}`, "rocmforge_cpu.node");
});

afterEach(() => {
  for (const path of [built, prebuilt]) delete cache[path];
  rmSync(folder, { recursive: true, force: true });
});

/** Puts a ready module where `require` finds it, since plain files cannot stand in for shared libraries. */
function place(path: string, exports: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "stands in for a shared library");
  cache[path] = {
    id: path,
    filename: path,
    path: dirname(path),
    loaded: true,
    exports,
    children: [],
    paths: [],
    isPreloading: false,
    parent: null,
  } as unknown as NodeJS.Module;
}

function standIn(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  const nothing = (): void => {};
  return {
    bindingsVersion: BINDINGS_VERSION,
    isas: ["portable"],
    mapRegion: nothing,
    allocateRegion: nothing,
    createKvCache: nothing,
    kvCacheBytes: nothing,
    compile: nothing,
    measureReadBandwidth: nothing,
    measureDotProductPeak: nothing,
    ...changes,
  };
}

describe("loadAddon", () => {
  it("prefers this machine's own build to that of the platform's package", () => {
    place(prebuilt, standIn());
    expect(loadAddon(folder)).toMatchObject({ path: prebuilt });
    place(built, standIn());
    expect(loadAddon(folder)).toMatchObject({ path: built });
  });

  it("tries the next one if one does not fit", () => {
    place(built, standIn({ bindingsVersion: BINDINGS_VERSION + 1 }));
    place(prebuilt, standIn());
    expect(loadAddon(folder)).toMatchObject({ path: prebuilt });
  });

  it("rejects a package whose addon was never built, and says how to", () => {
    expect(loadAddon(folder)).toEqual({
      reason: expect.stringMatching(/has not been built/),
      remedy: expect.stringContaining("rocmforge doctor --build"),
    });
  });

  it("finds the platform's package beside its own, as package managers install it", () => {
    const beside = join(folder, "node_modules", "rocmforge");
    mkdirSync(beside, { recursive: true });
    place(prebuilt, standIn());
    expect(loadAddon(beside)).toMatchObject({ path: prebuilt });
  });

  it.skipIf(!PREBUILT_PLATFORMS.includes(PLATFORM))(
    `names the package that is missing${PREBUILT_PLATFORMS.includes(PLATFORM) ? "" : " (skipped: no package for this platform)"}`,
    () => {
      expect(loadAddon(folder)).toMatchObject({
        reason: expect.stringContaining(`@rocmforge/cpu-${PLATFORM} is not installed`),
      });
    },
  );

  it("knows the platforms of package.json, each with the package's own version", () => {
    expect(packageJson.optionalDependencies).toEqual(
      Object.fromEntries(PREBUILT_PLATFORMS.map((platform) => [`@rocmforge/cpu-${platform}`, packageJson.version])),
    );
  });

  it("rejects with what the failed build wrote down, on one line", () => {
    mkdirSync(join(folder, "native", "cpu"), { recursive: true });
    const record = join(folder, "native", "cpu", "build-failure.json");
    writeFileSync(record, JSON.stringify({ reason: "make is\nmissing", remedy: "install make" }));
    expect(loadAddon(folder)).toEqual({
      reason: "the native addon could not be built: make is missing",
      remedy: "install make",
    });
    writeFileSync(record, `{"reason": 1`);
    expect(loadAddon(folder)).toMatchObject({ reason: expect.stringMatching(/has not been built/) });
  });

  it("rejects a file that is no shared library", () => {
    mkdirSync(dirname(built), { recursive: true });
    writeFileSync(built, "not a library");
    expect(loadAddon(folder)).toEqual({
      reason: expect.stringMatching(/rocmforge_cpu\.node does not load: \S/),
      remedy: expect.stringContaining("doctor --build"),
    });
  });

  it.each([
    [
      "other bindings",
      { bindingsVersion: BINDINGS_VERSION + 1 },
      new RegExp(`its bindings are version ${BINDINGS_VERSION + 1}, expected ${BINDINGS_VERSION}`),
    ],
    ["no bindings", { bindingsVersion: undefined }, /its bindings are version undefined/],
    ["a missing function", { compile: undefined, mapRegion: 3 }, /lacks mapRegion, compile/],
    ["no kernels for this processor", { isas: [] }, /no kernels that this processor can run/],
    ["a list of kernels that is none", { isas: "avx2" }, /no kernels/],
  ])("rejects an addon with %s", (_what, changes, reason) => {
    place(built, standIn(changes));
    expect(loadAddon(folder)).toMatchObject({ reason: expect.stringMatching(reason) });
  });

  it("rejects a module that exports nothing", () => {
    place(built, null);
    expect(loadAddon(folder)).toMatchObject({ reason: expect.stringMatching(/another version/) });
  });
});
