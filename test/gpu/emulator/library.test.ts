// The test double as a library: devices, compiler, modules, failures on demand, and what it does to its process.

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { describeEmulator, emulatorLibrary, settingVariables } from "./build.js";
import { bytes, Emulator } from "./ffi.js";
import { compile, download, PORTABLE, TEST_KERNELS, TestKernels, upload } from "./programs.js";

const koffiPath = createRequire(import.meta.url).resolve("koffi");

function runAlone(body: string): { readonly signal: string | null; readonly stderr: string } {
  const script = `const koffi = require(${JSON.stringify(koffiPath)}); const library = koffi.load(${JSON.stringify(emulatorLibrary())}); ${body}`;
  const { signal, stderr } = spawnSync(process.execPath, ["-e", script], { encoding: "utf8", timeout: 30_000 });
  return { signal, stderr };
}

const intAt = (out: Uint8Array<ArrayBuffer>, offset = 0): number => new DataView(out.buffer).getInt32(offset, true);
const textAt = (out: Uint8Array, offset: number): string =>
  Buffer.from(out).toString("latin1", offset, Buffer.from(out).indexOf(0, offset));

describeEmulator("the HIP emulator as a library", () => {
  const emulator = new Emulator();
  const { image } = compile(emulator, TEST_KERNELS, 32);

  beforeEach(() => emulator.reset());
  afterAll(() => emulator.reset());

  describe("devices", () => {
    it("tells of itself in both layouts of properties, and by attributes", () => {
      emulator.reset({ waveSize: 64, memoryBytes: 3 << 20 });
      const properties = bytes(1472);
      emulator.do("hipGetDevicePropertiesR0600", properties, 0);
      expect([textAt(properties, 0), textAt(properties, 1160)]).toEqual(["Emulated Radeon", "gfx90a:sramecc+:xnack-"]);
      expect([intAt(properties, 288), intAt(properties, 308), intAt(properties, 388), intAt(properties, 396)]).toEqual([
        3 << 20,
        64,
        4,
        0,
      ]);
      const old = bytes(800);
      old.fill(9, 792);
      emulator.do("hipGetDeviceProperties", old, 0);
      expect([textAt(old, 0), textAt(old, 396)]).toEqual(["Emulated Radeon", "gfx90a:sramecc+:xnack-"]);
      expect([intAt(old, 256), intAt(old, 276), intAt(old, 336)]).toEqual([3 << 20, 64, 4]);
      expect([...old.subarray(792)]).toEqual([9, 9, 9, 9, 9, 9, 9, 9]);
      const attribute = (number: number): number => Number(emulator.get("hipDeviceGetAttribute", number, 0));
      expect([87, 63, 74, 16, 56].map(attribute)).toEqual([64, 4, 64 << 10, 0, 1024]);
      expect(emulator.status("hipDeviceGetAttribute", bytes(8), 12345, 0)).toBe(1);
      expect(emulator.status("hipGetDevicePropertiesR0600", properties, 1)).toBe(101);
      expect(emulator.get("hipRuntimeGetVersion") / 10_000_000n).toBe(6n);
      expect(emulator.get("hipDriverGetVersion") / 10_000_000n).toBe(6n);
    });

    it("can be a machine without a card", () => {
      emulator.reset({ devices: 0 });
      const count = bytes(8).fill(7);
      expect(emulator.status("hipGetDeviceCount", count)).toBe(100);
      expect(intAt(count)).toBe(0);
      expect(emulator.status("hipInit", 0)).toBe(100);
      expect(emulator.status("hipSetDevice", 0)).toBe(100);
      expect(emulator.status("hipMalloc", count, 16)).toBe(100);
      expect(emulator.text("hipGetErrorName", 100)).toBe("hipErrorNoDevice");
      expect(emulator.text("hipGetErrorString", 100)).toBe("no ROCm-capable device is detected");
    });

    it("can have several, the first an integrated one, each with its own memory and faults", () => {
      emulator.reset({ devices: 2, memoryBytes: 4 << 20 });
      emulator.do("hipInit", 0);
      expect(emulator.get("hipGetDeviceCount")).toBe(2n);
      expect([0, 1].map((index) => Number(emulator.get("hipDeviceGetAttribute", 16, index)))).toEqual([1, 0]);
      expect(emulator.status("hipMalloc", bytes(8), 2 << 20)).toBe(2);
      const first = emulator.get("hipMalloc", 16);
      emulator.do("hipSetDevice", 1);
      expect(emulator.get("hipGetDevice")).toBe(1n);
      const second = emulator.get("hipMalloc", 2 << 20);
      expect(emulator.status("hipMemsetD8Async", first, 0, 16, 0n)).toBe(1);
      const kernels = new TestKernels(emulator, image);
      expect(kernels.run("write_at", [second, 1n << 40n, second])).toBe(700);
      expect(emulator.status("hipDeviceSynchronize")).toBe(700);
      emulator.do("hipSetDevice", 0);
      emulator.do("hipMemsetD8Async", first, 0, 16, 0n);
      emulator.do("hipDeviceSynchronize");
      expect(emulator.status("hipSetDevice", 2)).toBe(101);
    });
  });

  describe("compiler", () => {
    it("reports errors in the source with the compiler's log", () => {
      const { status, log } = compile(emulator, `${PORTABLE}\n#line 1 "broken.hip"\nint here = nowhere;\n`, 32);
      expect(status).toBe(6);
      expect(log).toMatch(/broken\.hip:1:\d+: error: .*nowhere/);
      expect(emulator.text("hiprtcGetErrorString", 6)).toBe("HIPRTC_ERROR_COMPILATION");
    });

    it("refuses options that it does not know, and takes definitions", () => {
      expect(compile(emulator, PORTABLE, 32, ["--surprise"])).toMatchObject({
        status: 6,
        log: expect.stringContaining("--surprise"),
      });
      const source = `${PORTABLE}\nstruct AArguments { u32* out; };\nKERNEL(k, AArguments, 32) { a.out[thread_index()] = VALUE; }`;
      const defined = compile(emulator, source, 32, ["-DVALUE=77"]);
      expect(defined).toMatchObject({ status: 0, log: "" });
      const kernels = new TestKernels(emulator, defined.image);
      const out = emulator.get("hipMalloc", 128);
      expect(kernels.run("k", [out], { threads: 32 })).toBe(0);
      expect(new Set(download(emulator, out, 32))).toEqual(new Set([77]));
    });

    it("ends the process over an architecture that it does not know", () => {
      const { signal, stderr } = runAlone(`
        const out = Buffer.alloc(4096);
        library.func("int hiprtcCreateProgram(void *, const char *, const char *, int, void *, void *)")(out, "", "x", 0, null, null);
        library.func("int hiprtcCompileProgram(void *, int, const char **)")(out.readBigUInt64LE(0), 1, ["--offload-arch=gfx9999"]);
      `);
      expect(signal).toBe("SIGABRT");
      expect(stderr).toContain("gfx9999");
    });

    it("refuses programs and pointers that are not there", () => {
      expect(emulator.status("hiprtcCompileProgram", 0x1234n, 0, [])).toBe(4);
      expect(emulator.status("hiprtcCreateProgram", bytes(8), null, "x", 0, null, null)).toBe(3);
      const program = emulator.get("hiprtcCreateProgram", "", "x", 0, null, null);
      expect(emulator.status("hiprtcGetCode", program, bytes(8))).toBe(4);
    });
  });

  describe("modules", () => {
    it("refuses images of another kind, architecture or wave size, and damaged ones", () => {
      expect(emulator.status("hipModuleLoadData", bytes(8), bytes(4096))).toBe(200);
      const damaged = image.slice();
      damaged[damaged.length >> 1] ^= 1;
      expect(emulator.status("hipModuleLoadData", bytes(8), damaged)).toBe(200);
      expect(emulator.message()).toContain("the image is damaged");
      emulator.reset({ waveSize: 64 });
      expect(emulator.status("hipModuleLoadData", bytes(8), image)).toBe(209);
      expect(emulator.message()).toContain("the image is for gfx1100, the device is gfx90a");
      const wrongWave = compile(emulator, TEST_KERNELS, 64, ["-DWAVE=32"]);
      expect(emulator.status("hipModuleLoadData", bytes(8), wrongWave.image)).toBe(209);
      expect(emulator.message()).toContain("compiled with WAVE=32 for a device whose waves have 64 lanes");
    });

    it("knows its kernels, their blocks and their limits", () => {
      const kernels = new TestKernels(emulator, image);
      const out = emulator.get("hipMalloc", 4 * 96);
      expect(emulator.status("hipModuleGetFunction", bytes(8), kernels.module, "nothing")).toBe(500);
      expect(emulator.status("hipModuleGetFunction", bytes(8), kernels.module, "emulated_wave")).toBe(500);
      expect(emulator.get("hipModuleGetFunction", kernels.module, "count")).toBe(
        emulator.get("hipModuleGetFunction", kernels.module, "count"),
      );
      expect(kernels.run("write_index", [out, 1])).toBe(0);
      expect(kernels.run("write_index", [out, 1], { threads: 128 })).toBe(9);
      expect(emulator.message()).toBe("kernel write_index has blocks of 96 threads, not 128");
      expect(kernels.run("write_index", [out, 1], { grid: [0, 1, 1] })).toBe(9);
      expect(kernels.run("write_index", [out, 1], { grid: [1, 65536, 1] })).toBe(9);
    });
  });

  describe("failures on demand", () => {
    it("fails the n-th call of a name, or all from there on", () => {
      emulator.reset({ failures: ["hipMalloc:3:2", "hipStreamCreateWithFlags:2+:999"] });
      const allocations = Array.from({ length: 5 }, () => emulator.status("hipMalloc", bytes(8), 16));
      expect(allocations).toEqual([0, 0, 2, 0, 0]);
      const streams = Array.from({ length: 4 }, () => emulator.status("hipStreamCreateWithFlags", bytes(8), 1));
      expect(streams).toEqual([0, 999, 999, 999]);
    });

    it("loses the device at the n-th launch", () => {
      emulator.reset({ failures: ["lost:3"] });
      const kernels = new TestKernels(emulator, image);
      const counter = upload(emulator, new Uint32Array(1));
      const runs = Array.from({ length: 4 }, () => kernels.run("count", [counter, 1n, counter]));
      expect(runs).toEqual([0, 0, 719, 719]);
      expect(emulator.message()).toContain("the device was lost at launch 3");
      expect(emulator.status("hipMalloc", bytes(8), 16)).toBe(719);
      expect(emulator.status("hipFree", counter)).toBe(719);
      expect(emulator.count("allocations")).toBe(0);
    });

    it("refuses settings that make no sense", () => {
      const { signal, stderr } = spawnWith({ ...settingVariables({}), ROCMFORGE_EMULATOR_WAVE: "48" });
      expect(signal).toBe("SIGABRT");
      expect(stderr).toContain("ROCMFORGE_EMULATOR_WAVE=48 makes no sense");
    });
  });

  it("leaves faults that are not a kernel's to the process", () => {
    // A module load guards memory, so the handlers are in place; then this process reads where it must not.
    const { signal } = runAlone(`
      library.func("int hipModuleLoadData(void *, void *)")(Buffer.alloc(8), Buffer.alloc(4096));
      koffi.decode(64n, "int");
    `);
    expect(signal).toBe("SIGSEGV");
  });

  it("has no effect on how a process ends", () => {
    const { signal, stderr } = runAlone(`
      const out = Buffer.alloc(64);
      library.func("int hipStreamCreateWithFlags(void *, uint32_t)")(out, 1);
      library.func("int hipMalloc(void *, size_t)")(out.subarray(8), 64);
      library.func("int hipMemsetD8Async(void *, uint8_t, size_t, void *)")(out.readBigUInt64LE(8), 1, 64, out.readBigUInt64LE(0));
    `);
    expect([signal, stderr]).toEqual([null, ""]);
  });

  function spawnWith(variables: Readonly<Record<string, string>>): {
    readonly signal: string | null;
    readonly stderr: string;
  } {
    const script = `require(${JSON.stringify(koffiPath)}).load(${JSON.stringify(emulatorLibrary())}).func("int hipInit(uint32_t)")(0)`;
    const { signal, stderr } = spawnSync(process.execPath, ["-e", script], {
      encoding: "utf8",
      env: { ...process.env, ...variables },
      timeout: 30_000,
    });
    return { signal, stderr };
  }
});
