// Every way in which an AMD GPU can fail its user, from one that is not there to one that is lost in mid-request.

import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { HIP_CALLS, HIP_OWN_CALLS } from "../../../src/backends/gpu/drivers/hip/ffi.js";
import { symbolOf } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { createBackend } from "../../../src/backends/registry.js";
import { selectEmulated } from "../emulated-hip.js";
import { expectAnotherRunsAfterEach, expectFailure, leftOver, runModel, runOn } from "../failures.js";
import { writeModel } from "../random-models.js";
import { describeEmulator } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(async () => await writeModel(path));
afterAll(() => folder[Symbol.dispose]());

const run = (): Promise<void> => runOn(path, () => createBackend("hip"));

/** A library with these functions, each returning 0. */
function library(name: string, functions: readonly string[], more = ""): string {
  const source = folder.file(`${name}.c`);
  writeFileSync(source, [more, ...functions.map((symbol) => `int ${symbol}(void) { return 0; }`)].join("\n"));
  const { status, stderr } = spawnSync("cc", ["-shared", "-fPIC", "-w", "-o", folder.file(name), source], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(stderr);
  return folder.file(name);
}

describeEmulator("hip with", () => {
  expectAnotherRunsAfterEach(path);

  it("no GPU", async () => {
    const emulator = selectEmulated("no-device", { devices: 0 });
    const expected = { code: "GPU_DEVICE_NOT_FOUND", kind: "device not found", call: "hipGetDeviceCount", number: 100 };
    const error = await expectFailure(run, { ...expected, remedy: /`backend: "cpu"`|groups render and video/ });
    expect(error.details["name"]).toBe("hipErrorNoDevice");
    expect(leftOver(emulator)).toEqual({});
  });

  const hasCard = existsSync("/dev/kfd") || existsSync("/dev/dxg");
  it.skipIf(hasCard)(`no driver in the kernel${hasCard ? " (skipped: there is one)" : ""}`, async () => {
    delete process.env["ROCMFORGE_HIP_LIBRARY"];
    const error = await expectFailure(run, {
      code: "GPU_DEVICE_NOT_FOUND",
      kind: "device not found",
      call: "access",
      number: 2,
      remedy: /install the amdgpu driver/,
    });
    expect(error.details).toMatchObject({ backend: "hip", file: "/dev/kfd", name: "ENOENT" });
  });

  it("no runtime library", async () => {
    process.env["ROCMFORGE_HIP_LIBRARY"] = "/nowhere/libamdhip64.so";
    await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "dlopen",
      remedy: /correct or unset ROCMFORGE_HIP_LIBRARY/,
    });
  });

  it("a runtime that is too old", async () => {
    const symbols = [...Object.values(HIP_CALLS), ...Object.values(HIP_OWN_CALLS)]
      .map(symbolOf)
      .filter((symbol) => symbol !== "hipRuntimeGetVersion");
    process.env["ROCMFORGE_HIP_LIBRARY"] = library(
      "old.so",
      [...symbols, "hipGetDeviceProperties"],
      "int hipRuntimeGetVersion(int *out) { *out = 40500000; return 0; }",
    );
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "hipRuntimeGetVersion",
      remedy: /install a newer version of the HIP runtime/,
    });
    expect(error.details).toMatchObject({
      reason: "the HIP runtime is too old: it is 4.5.0, and at least 5.0.0 is needed",
      version: 40_500_000,
    });
  });

  it("a library of the wrong version", async () => {
    process.env["ROCMFORGE_HIP_LIBRARY"] = library("wrong.so", ["hipMalloc"]);
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "dlsym",
      remedy: /install a newer version/,
    });
    expect(error.details["lacking"]).toContain("hipGetDeviceCount");
  });

  it("a runtime that does not start", async () => {
    const emulator = selectEmulated("does-not-start", { failures: ["hipGetDeviceCount:1+:3"] });
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "hipGetDeviceCount",
      number: 3,
      remedy: /rocminfo/,
    });
    expect(error.details["name"]).toBe("hipErrorNotInitialized");
    expect(leftOver(emulator)).toEqual({});
  });

  it("a card that its compiler does not know", async () => {
    const emulator = selectEmulated("unknown-card", { architecture: "gfx9999" });
    const error = await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "hiprtcCompileProgram",
      remedy: /may not support gfx9999: install a newer version/,
    });
    expect(error.details["architecture"]).toBe("gfx9999");
    expect(leftOver(emulator)).toEqual({});
  });

  it("a card that is no card of AMD's", async () => {
    const emulator = selectEmulated("strange-card", { architecture: "quantum-1" });
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "hipGetDevicePropertiesR0600",
      number: 0,
      remedy: /`device`/,
    });
    expect(error.details["reason"]).toContain('"quantum-1"');
    expect(leftOver(emulator)).toEqual({});
  });

  it("a kernel that does not compile", async () => {
    const emulator = selectEmulated("does-not-compile", { failures: ["hiprtcCompileProgram:1+:6"] });
    process.env["ROCMFORGE_KERNEL_CACHE"] = folder.file("kernels");
    const error = await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "hiprtcCompileProgram",
      number: 6,
      remedy: /rocmforge devices/,
    });
    expect(error.details["file"]).toMatch(/\.hip$/);
    expect(leftOver(emulator)).toEqual({});
  });

  it("memory that is used up half way through loading, and the next model has it again", async () => {
    // One refusal would be made good for: the step asks again for what did not come ahead of it.
    const refused = Array.from({ length: 32 }, (_, index) => `hipMalloc:${9 + index}:2`);
    const emulator = selectEmulated("used-up", { failures: refused });
    {
      await using backend = await createBackend("hip");
      const { availableBytes } = backend.memory();
      const expected = {
        code: "GPU_OUT_OF_MEMORY",
        kind: "out of memory",
        call: "hipMalloc",
        number: 2,
        remedy: /shorter context/,
      };
      const error = await expectFailure(() => runModel(path, backend), expected);
      expect(error.details).toMatchObject({ neededBytes: expect.any(Number), availableBytes: expect.any(Number) });
      // But for staging memory, which stays for the next one.
      expect(availableBytes - backend.memory().availableBytes).toBeLessThanOrEqual(8 << 20);
      await vi.waitFor(async () => await runModel(path, backend), { timeout: 30_000 });
    }
    expect(leftOver(emulator)).toEqual({});
  });

  it("a device that is lost in mid-request", async () => {
    const emulator = selectEmulated("lost", { failures: ["lost:40"] });
    await expectFailure(run, {
      code: "GPU_DEVICE_LOST",
      kind: "device lost",
      // Any of the driver's calls may be the first after it: how far ahead work is queued depends on the machine.
      call: expect.stringMatching(/^hip[A-Z]\w+$/),
      number: 719,
      remedy: /load the model again/,
    });
    expect(leftOver(emulator)).toEqual({});
  });
});
