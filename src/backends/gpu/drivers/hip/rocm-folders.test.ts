// ROCm's libraries are looked for wherever AMD's packages and pip's put them.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { pythonPackageFolders } from "../shared/library-folders.js";
import { HIP_NAMES, HIPRTC_NAMES } from "./ffi.js";
import { namesIn, rocmFolders } from "./rocm-folders.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const made = (...parts: readonly string[]): string => {
  const path = join(folder.path, ...parts);
  mkdirSync(path, { recursive: true });
  return path;
};

describe("ROCm's folders", () => {
  const opt = made("opt");
  const older = made("opt", "rocm-6.4.3", "lib");
  const newer = made("opt", "rocm-6.10.0", "lib");
  const core = made("opt", "rocm-6.10.0", "core-7.11", "lib");
  made("opt", "rocm-examples", "lib");
  const home = made("home");
  const packages = made("venv", "lib", "python3.12", "site-packages");
  const pip = made("venv", "lib", "python3.12", "site-packages", "_rocm_sdk_core", "lib");
  const pipLibraries = made("venv", "lib", "python3.12", "site-packages", "_rocm_sdk_libraries_gfx110X_all", "lib");
  made("venv", "lib", "python3.12", "site-packages", "rocm_sdk", "lib");
  const named = made("elsewhere", "lib64");
  const environment = { HOME: home, VIRTUAL_ENV: folder.file("venv") };

  it("are the environment's, then the newest of AMD's packages, then pip's", () => {
    const packageFolders = pythonPackageFolders(environment, []);
    expect(packageFolders).toContain(packages);
    expect(
      rocmFolders({
        environment: { ...environment, ROCM_PATH: folder.file("elsewhere") },
        parent: opt,
        packageFolders,
      }),
    ).toEqual([named, core, newer, older, pipLibraries, pip]);
  });

  it("are none where nothing is installed", () => {
    expect(rocmFolders({ environment: { HOME: home }, parent: folder.file("nowhere"), packageFolders: [] })).toEqual(
      [],
    );
  });

  it("are searched for every name of every release behind the system's loader", () => {
    expect(HIPRTC_NAMES).toEqual(["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"]);
    expect(namesIn(HIP_NAMES.slice(1, 3), [newer])).toEqual([
      "libamdhip64.so.6",
      "libamdhip64.so.5",
      join(newer, "libamdhip64.so.6"),
      join(newer, "libamdhip64.so.5"),
    ]);
  });
});
