// The real libamdhip64 and its hiprtc on a machine without a card: everything that is bound is there, what cannot be done is
// said with its reason and remedy, and the process goes on to do something else.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CompileOptions } from "../../../src/backends/gpu/drivers/shared/driver.js";
import { HIP_LIBRARY_VARIABLE } from "../../../src/backends/gpu/drivers/hip/ffi.js";
import { hipLibraries } from "../../../src/backends/gpu/drivers/hip/libraries.js";
import { detectHip } from "../../../src/backends/gpu/drivers/hip/detect.js";
import { isUnavailableDriver } from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import type { NativeCompiler } from "../../../src/backends/gpu/drivers/shared/compiler.js";
import { openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { createBackend, detectDevices } from "../../../src/backends/registry.js";
import { loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { readCodeObject } from "./code-object.js";
import { report } from "./report.js";
import { openCompiler } from "./run-time-compilers.js";

const MODEL = fileURLToPath(new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
const COMMAND_LINE = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));
const LIMIT_MS = 300_000;

const library = openLibrary(hipLibraries());
const compiler = openCompiler("hip");
const cards = existsSync("/dev/kfd");
const whyNot =
  "missing" in library
    ? "there is no libamdhip64 here; Debian: apt-get install libamdhip64-5"
    : cards
      ? "there is a card"
      : undefined;
const noCompiler = "missing" in compiler ? compiler.missing : undefined;
if (whyNot !== undefined) report({ toolchain: "libamdhip64 without a device", skipped: whyNot });

describe.skipIf(whyNot !== undefined)(
  `libamdhip64 without a device${whyNot === undefined ? "" : ` (skipped: ${whyNot})`}`,
  () => {
    const before = process.env[HIP_LIBRARY_VARIABLE];
    beforeAll(() => {
      if (!("missing" in library)) process.env[HIP_LIBRARY_VARIABLE] = library.name;
    });
    afterAll(() => {
      if (before === undefined) delete process.env[HIP_LIBRARY_VARIABLE];
      else process.env[HIP_LIBRARY_VARIABLE] = before;
    });

    it("has every function that is bound, and finds no card", () => {
      const found = detectHip();
      expect(isUnavailableDriver(found) ? found : undefined).toMatchObject({
        reason: expect.stringMatching(/no AMD GPU/),
        remedy: expect.stringMatching(/\w/),
        expected: true,
      });
    });

    it(
      "rejects the backend with reason and remedy, and the process computes on another",
      { timeout: LIMIT_MS },
      async () => {
        await expect(createBackend("hip")).rejects.toMatchObject({
          code: "GPU_DEVICE_NOT_FOUND",
          message: expect.stringMatching(/no AMD GPU/),
          details: { reason: expect.stringMatching(/no AMD GPU/), remedy: expect.stringMatching(/`backend: "cpu"`/) },
        });
        await using backend = await createBackend("reference");
        await using loader = await GgufLoader.open(MODEL);
        const plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: 32 });
        using cache = plan.createKvCache();
        const logits = await plan.decode(Int32Array.of(1), 0, cache);
        expect(logits.every((logit) => Number.isFinite(logit))).toBe(true);
      },
    );

    it("is told by the survey of devices", async () => {
      const hip = (await detectDevices()).find(({ backend }) => backend === "hip");
      expect(hip).toMatchObject({ devices: [], unavailable: { reason: expect.stringMatching(/no AMD GPU/) } });
    });

    it.each([
      ["devices", ["devices"], 0],
      ["generate", ["generate", "-p", "Once", "-n", "1", "--backend", "hip"], 1],
    ] as const)("lets `rocmforge %s` end by itself, with the reason", { timeout: LIMIT_MS }, (_name, args, status) => {
      const ended = spawnSync(process.execPath, [COMMAND_LINE, ...args], { encoding: "utf8", timeout: LIMIT_MS });
      expect({ status: ended.status, signal: ended.signal, said: `${ended.stdout}${ended.stderr}` }).toEqual({
        status,
        signal: null,
        said: expect.stringMatching(/no AMD GPU/),
      });
    });
  },
);

describe.skipIf(noCompiler !== undefined)(
  `hiprtc without a device${noCompiler === undefined ? "" : ` (skipped: ${noCompiler})`}`,
  () => {
    const options = (architecture: string): CompileOptions => ({
      name: "rows/bandwidth.hip",
      architecture,
      waveSize: 32,
      defines: {},
    });
    const source = loadKernelSource("rows/bandwidth");
    const hiprtc = compiler as NativeCompiler;

    it("rejects a wrong source with its complaint", { timeout: LIMIT_MS }, async () => {
      await expect(
        hiprtc.compile(`${source.text}\nint broken() { return nothing_of_that_name; }\n`, options("gfx1030")),
      ).rejects.toMatchObject({
        code: "GPU_COMPILE",
        message: expect.stringMatching(/nothing_of_that_name/),
        details: { architecture: "gfx1030", log: expect.stringMatching(/error: use of undeclared identifier/) },
      });
    });

    it(
      "rejects a card that it does not know, though its process dies of it, and compiles the next",
      { timeout: LIMIT_MS },
      async () => {
        await expect(hiprtc.compile(source.text, options("gfx9999"))).rejects.toMatchObject({
          code: "GPU_COMPILE",
          details: { remedy: expect.stringMatching(/may not support gfx9999|does not seem to support gfx9999/) },
        });
        const kernels = readCodeObject(await hiprtc.compile(source.text, options("gfx1030")));
        expect(kernels.map(({ name }) => name)).toEqual(source.kernelNames);
      },
    );
  },
);
