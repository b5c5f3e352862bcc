// Every way in which an NVIDIA GPU can fail its user, from one that is not there to one that is lost in mid-request, on
// the C double of its driver. Whole models run on it, too, so that kernels ask for shared memory as a card wants them to.

import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { createBackend } from "../../../src/backends/registry.js";
import { expectAnotherRunsAfterEach, expectFailure, leftOver, runModel, runOn } from "../failures.js";
import { writeModel } from "../random-models.js";
import { describeEmulator } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { selectDouble } from "./double.js";

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
beforeAll(async () => await writeModel(path));
afterAll(() => folder[Symbol.dispose]());

const run = (): Promise<void> => runOn(path, () => createBackend("cuda"));

describeEmulator("cuda with", () => {
  expectAnotherRunsAfterEach(path);

  it("everything that it takes runs a model and leaves nothing", async () => {
    const { emulator } = selectDouble("good");
    await expect(run()).resolves.toBeUndefined();
    expect(leftOver(emulator)).toEqual({});
  });

  it("no GPU", async () => {
    const { emulator } = selectDouble("no-device", { devices: 0 });
    const error = await expectFailure(run, {
      code: "GPU_DEVICE_NOT_FOUND",
      kind: "device not found",
      call: "cuDeviceGetCount",
      number: 100,
      remedy: /`backend: "cpu"`/,
    });
    expect(error.details["name"]).toBe("CUDA_ERROR_NO_DEVICE");
    expect(leftOver(emulator)).toEqual({});
  });

  const hasCard = ["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl", "/dev/nvmap"].some((file) => existsSync(file));
  it.skipIf(hasCard)(`no driver in the kernel${hasCard ? " (skipped: there is one)" : ""}`, async () => {
    delete process.env["ROCMFORGE_CUDA_LIBRARY"];
    const error = await expectFailure(run, {
      code: "GPU_DEVICE_NOT_FOUND",
      kind: "device not found",
      call: "access",
      number: 2,
      remedy: /install the NVIDIA driver/,
    });
    expect(error.details).toMatchObject({ backend: "cuda", file: "/dev/nvidiactl", name: "ENOENT" });
  });

  it("no driver library", async () => {
    process.env["ROCMFORGE_CUDA_LIBRARY"] = "/nowhere/libcuda.so.1";
    await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "dlopen",
      remedy: /correct or unset ROCMFORGE_CUDA_LIBRARY/,
    });
  });

  it("a driver that is too old", async () => {
    const { emulator } = selectDouble("old", { version: 11_020 });
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "cuDriverGetVersion",
      remedy: /update NVIDIA's driver/,
    });
    expect(error.details).toMatchObject({ version: 11_020, oldestVersion: 11_040 });
    expect(leftOver(emulator)).toEqual({});
  });

  it("a library of the wrong version", async () => {
    // One that is there on every machine, and no driver.
    process.env["ROCMFORGE_CUDA_LIBRARY"] = "libc.so.6";
    const error = await expectFailure(run, {
      code: "GPU_INITIALISATION",
      kind: "initialisation",
      call: "dlsym",
      remedy: /install a newer version of the CUDA driver/,
    });
    expect(error.details["lacking"]).toContain("cuInit");
  });

  it("no run-time compiler, or one of the wrong version", async () => {
    const { emulator } = selectDouble("no-compiler");
    process.env["ROCMFORGE_NVRTC_LIBRARY"] = "/nowhere/libnvrtc.so";
    await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "dlopen",
      remedy: /correct or unset ROCMFORGE_NVRTC_LIBRARY/,
    });
    process.env["ROCMFORGE_NVRTC_LIBRARY"] = "libc.so.6";
    await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "dlsym",
      remedy: /install a newer version of NVRTC/,
    });
    expect(leftOver(emulator)).toEqual({});
  });

  it("a card that its compiler does not know", async () => {
    const { emulator } = selectDouble("unknown-card", { major: 77 });
    await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "nvrtcCompileProgram",
      number: 5,
      remedy: /does not seem to support sm_770: install a newer version/,
    });
    expect(leftOver(emulator)).toEqual({});
  });

  it("a kernel that does not compile", async () => {
    const { emulator } = selectDouble("does-not-compile", { failures: ["hiprtcCompileProgram:1+:6"] });
    process.env["ROCMFORGE_KERNEL_CACHE"] = folder.file("kernels");
    await expectFailure(run, {
      code: "GPU_COMPILE",
      kind: "compile",
      call: "nvrtcCompileProgram",
      number: 6,
      remedy: /rocmforge devices/,
    });
    expect(leftOver(emulator)).toEqual({});
  });

  it("memory that is used up half way through loading, and the next model has it again", async () => {
    const refused = Array.from({ length: 32 }, (_, index) => `hipMalloc:${9 + index}:2`);
    const { emulator } = selectDouble("used-up", { failures: refused });
    {
      await using backend = await createBackend("cuda");
      const { availableBytes } = backend.memory();
      const expected = {
        code: "GPU_OUT_OF_MEMORY",
        kind: "out of memory",
        call: "cuMemAlloc_v2",
        number: 2,
        remedy: /shorter context/,
      };
      await expectFailure(() => runModel(path, backend), expected);
      // But for staging memory, which stays for the next one.
      expect(availableBytes - backend.memory().availableBytes).toBeLessThanOrEqual(32 << 20);
      await vi.waitFor(async () => await runModel(path, backend), { timeout: 30_000 });
    }
    expect(leftOver(emulator)).toEqual({});
  });

  it("a device that is lost in mid-request", async () => {
    const { emulator } = selectDouble("lost", { failures: ["lost:40"] });
    const error = await expectFailure(run, {
      code: "GPU_DEVICE_LOST",
      kind: "device lost",
      // Any of the driver's calls may be the first after it: how far ahead work is queued depends on the machine.
      call: expect.stringMatching(/^cu[A-Z]\w+$/),
      number: 719,
      remedy: /load the model again/,
    });
    expect(error.details["name"]).toBe("CUDA_ERROR_LAUNCH_FAILED");
    expect(leftOver(emulator)).toEqual({});
  });
});
