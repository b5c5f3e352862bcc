// Machines on which a GPU backend cannot run: no library, a broken one, one of the wrong version, no device. Each has its
// reason and its remedy, `auto` goes past what is expected without a word, and nothing moves to the CPU silently.

import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { detectCuda } from "../../../src/backends/gpu/drivers/cuda/detect.js";
import { detectHip } from "../../../src/backends/gpu/drivers/hip/detect.js";
import {
  type UnavailableDriver,
  isUnavailableDriver,
} from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import { type NativeLibrary, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { createBackend, detectDevices } from "../../../src/backends/registry.js";
import { describeEmulator, emulatorEnvironment } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const VARIABLES = [
  "ROCMFORGE_HIP_LIBRARY",
  "ROCMFORGE_HIPRTC_LIBRARY",
  "ROCMFORGE_CUDA_LIBRARY",
  "ROCMFORGE_NVRTC_LIBRARY",
  "ROCMFORGE_EMULATOR_DEVICES",
];

const NO_AMD_GPU = expect.stringMatching(/^(?:the HIP runtime finds|there is) no AMD GPU/);

let folder: TemporaryFolder;
let before: Readonly<Record<string, string | undefined>>;
beforeEach(() => {
  folder = new TemporaryFolder();
  before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
  for (const name of VARIABLES) delete process.env[name];
});
afterEach(() => {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  folder[Symbol.dispose]();
});

function unavailable(found: object): UnavailableDriver {
  if (!isUnavailableDriver(found)) throw new TypeError("there is no obstacle");
  return found;
}

const compiler = spawnSync("cc", ["--version"]).status === 0;

/** A library of the given C functions. */
function library(name: string, source: string): string {
  writeFileSync(folder.file(`${name}.c`), source);
  const { status, stderr } = spawnSync(
    "cc",
    ["-shared", "-fPIC", "-w", "-o", folder.file(name), folder.file(`${name}.c`)],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  return folder.file(name);
}

describe.each([
  ["hip", "ROCMFORGE_HIP_LIBRARY", detectHip],
  ["cuda", "ROCMFORGE_CUDA_LIBRARY", detectCuda],
] as const)("%s", (name, variable, find) => {
  it("rejects a library that the environment names and that is not there", async () => {
    process.env[variable] = folder.file("gone.so");
    const { reason, remedy, expected } = unavailable(find());
    expect(reason).toBe(
      `${variable} names a library that cannot be used: none of ${folder.file("gone.so")} is on this machine`,
    );
    expect(remedy).toBe(`correct or unset ${variable}`);
    expect(expected).toBe(false);
    await expect(createBackend(name)).rejects.toMatchObject({
      code: "GPU_INITIALISATION",
      details: { kind: "initialisation", reason, remedy },
    });
  });

  it("rejects a file that is no library", () => {
    process.env[variable] = folder.file("text.so");
    writeFileSync(folder.file("text.so"), "not a library, but long enough to be looked into");
    expect(unavailable(find())).toMatchObject({
      reason: expect.stringMatching(/text\.so does not load: /),
      expected: false,
    });
  });

  it.skipIf(!compiler)("names the functions that a library of the wrong version lacks (needs cc)", () => {
    process.env[variable] = library(
      "old.so",
      "int cuInit(unsigned f) { return 0; } int hipMalloc(void **p, unsigned long n) { return 0; }",
    );
    const { reason, remedy, expected } = unavailable(find());
    expect(reason).toMatch(/old\.so is an unsupported version: it has no (?:hip|cu)\w+, /);
    expect(remedy).toMatch(/^install a newer version of the (?:HIP runtime|CUDA driver)$/);
    expect(expected).toBe(false);
  });

  it.skipIf(!compiler)("names a library that its own needs and that is missing (needs cc)", () => {
    const needed = library("libneeded.so", "int needed(void) { return 0; }");
    writeFileSync(folder.file("needs.c"), "int needed(void); int cuInit(unsigned f) { return needed(); }");
    const { status } = spawnSync("cc", [
      "-shared",
      "-fPIC",
      "-w",
      "-o",
      folder.file("needs.so"),
      folder.file("needs.c"),
      `-L${folder.path}`,
      "-lneeded",
    ]);
    expect(status).toBe(0);
    process.env[variable] = folder.file("needs.so");
    spawnSync("rm", [needed]);
    expect(unavailable(find()).reason).toMatch(/libneeded\.so/);
  });
});

/** Enough of a CUDA driver to start with. */
function cudaStart(initialised: number, count: number): string {
  const functions = [
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceTotalMem_v2",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
  ];
  const more = ["cuCtxSetCurrent", "cuFuncSetAttribute", "cuGraphInstantiateWithFlags"];
  return [
    `int cuInit(unsigned flags) { return ${initialised}; }`,
    "int cuDriverGetVersion(int *out) { *out = 11020; return 0; }",
    `int cuDeviceGetCount(int *out) { *out = ${count}; return 0; }`,
    'int cuGetErrorName(int number, const char **out) { *out = "CUDA_ERROR_TEST"; return 0; }',
    'int cuGetErrorString(int number, const char **out) { *out = "it is broken"; return 0; }',
    ...[...functions, ...more].map((name) => `int ${name}(void) { return 1; }`),
  ].join("\n");
}

describe.skipIf(!compiler)("a CUDA driver (needs cc)", () => {
  it("that starts without a device is expected", () => {
    process.env["ROCMFORGE_CUDA_LIBRARY"] = library("none.so", cudaStart(100, 0));
    expect(unavailable(detectCuda())).toMatchObject({ reason: "the CUDA driver finds no NVIDIA GPU", expected: true });
  });

  it("that is only a stand-in for linking is expected", () => {
    process.env["ROCMFORGE_CUDA_LIBRARY"] = library("stub.so", cudaStart(34, 0));
    expect(unavailable(detectCuda())).toMatchObject({
      expected: true,
      remedy: expect.stringMatching(/install NVIDIA's driver/),
    });
  });

  it("that does not start is not, and says what the library said", () => {
    process.env["ROCMFORGE_CUDA_LIBRARY"] = library("broken.so", cudaStart(803, 0));
    expect(unavailable(detectCuda())).toMatchObject({
      reason: 'the CUDA driver failed to start: cuInit returned 803 (CUDA_ERROR_TEST, "it is broken")',
      expected: false,
    });
  });

  it("that is too old is not, and says from when on it would do", () => {
    process.env["ROCMFORGE_CUDA_LIBRARY"] = library("old.so", cudaStart(0, 1));
    expect(unavailable(detectCuda())).toMatchObject({
      reason: expect.stringMatching(/supports CUDA 11\.2, and at least 11\.4 is needed/),
      expected: false,
    });
  });
});

describe("the real HIP runtime", () => {
  const found = openLibrary(["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]);
  const why =
    "missing" in found ? ` (skipped: ${found.reason})` : existsSync("/dev/kfd") ? " (skipped: there is a device)" : "";

  it.skipIf(why !== "")(`has every function that is bound, and says when it has no device${why}`, async () => {
    process.env["ROCMFORGE_HIP_LIBRARY"] = (found as NativeLibrary).name;
    expect(unavailable(detectHip())).toMatchObject({ reason: NO_AMD_GPU, expected: true });
    await expect(createBackend("hip")).rejects.toMatchObject({ code: "GPU_DEVICE_NOT_FOUND" });
  });
});

describeEmulator("a HIP runtime", () => {
  it("without a device is expected", async () => {
    Object.assign(process.env, emulatorEnvironment({ devices: 0 }));
    expect(unavailable(detectHip())).toMatchObject({ reason: NO_AMD_GPU, expected: true });
    const [hip] = await detectDevices();
    expect(hip).toMatchObject({ backend: "hip", devices: [], unavailable: { reason: NO_AMD_GPU } });
  });

  // In a process of its own: this one has met a machine without a device.
  const choose = (name: string, threads: number): string => {
    const source = `import { createBackend } from "${new URL("../../../dist/internals.js", import.meta.url).href}";
      const backend = await createBackend("${name}", { threads: ${threads} }).catch(({ code }) => ({ description: { name: code } }));
      process.stdout.write(backend.description.name);
      process.exit(0);`;
    return spawnSync(process.execPath, ["--input-type=module", "-e", source], {
      encoding: "utf8",
      env: { ...process.env, ...emulatorEnvironment() },
    }).stdout;
  };

  it("with a device is what auto takes, whatever the CPU's threads were to be", () => {
    expect(choose("auto", 2)).toBe("hip");
    expect(choose("auto", 0)).toBe("OPTION_VALUE");
    expect(choose("hip", 2)).toBe("OPTION_VALUE");
  });
});
