// The CUDA code path on a driver that passes everything on to the HIP test double, and that minds threads and contexts.
// What real kernels do on a real card is not to be seen here; that every call arrives as cuda.h has it, is.

import { closeSync, openSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type DetectedCuda, detectCuda } from "../../../src/backends/gpu/drivers/cuda/detect.js";
import type { HostAddress } from "../../../src/backends/gpu/drivers/shared/driver.js";
import { KernelCache } from "../../../src/backends/gpu/kernels/kernel-cache.js";
import { KernelStore } from "../../../src/backends/gpu/kernels/kernel-store.js";
import { isUnavailableDriver } from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import { bindCalls, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { mapFile, unmap } from "../../../src/gguf/ffi.js";
import { SCALE_KERNEL, writeKernels } from "../hip/kernels.js";
import { describeEmulator } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { selectDouble } from "./double.js";

interface DoubleCalls {
  readonly retained: () => number;
  readonly dependentLaunches: () => number;
  readonly plainLaunches: () => number;
}

describeEmulator("a CUDA device", () => {
  let folder: TemporaryFolder;
  let found: DetectedCuda;
  let double: DoubleCalls;
  beforeAll(() => {
    folder = new TemporaryFolder();
    const { library } = selectDouble("device");
    const result = detectCuda();
    if (isUnavailableDriver(result)) throw new TypeError(result.reason);
    found = result;
    const opened = openLibrary([library]);
    if ("missing" in opened) throw new TypeError(opened.reason);
    const bound = bindCalls<DoubleCalls>(opened, {
      retained: "int cuDoubleRetained()",
      dependentLaunches: "int cuDoubleDependentLaunches()",
      plainLaunches: "int cuDoublePlainLaunches()",
    });
    if ("lacking" in bound) throw new TypeError(bound.lacking.join(", "));
    double = bound.calls;
  });
  afterAll(() => folder[Symbol.dispose]());

  it("tells its properties, driver and compiler", () => {
    const { driver, compiler } = found;
    expect(driver.version).toMatch(/^CUDA 12\.4/);
    expect(compiler.summary).toMatch(/^NVRTC 12\.4 /);
    expect(driver.devices()).toEqual([
      {
        index: 0,
        name: "Double 0",
        architecture: "sm_90",
        totalBytes: 2 ** 31,
        multiprocessors: 4,
        waveSize: 32,
        sharedBytes: 65_536,
        integrated: false,
      },
    ]);
  });

  it("compiles for the card's own instructions, launches, lets launches overlap, records and replays", async () => {
    using device = found.driver.open(0);
    using store = new KernelStore(device, found.compiler, {
      cache: new KernelCache(folder.file("cache")),
      sourceFolder: writeKernels(folder, { scale: SCALE_KERNEL }),
    });
    const kernel = (await store.module("scale")).kernel("scale");
    device.allowSharedBytes(kernel.handle, 60_000);
    const stream = device.createStream();
    const pinned = device.allocateHost(4000);
    const floats = new Float32Array(pinned.bytes.buffer, 0, 1000);
    for (let index = 0; index < 1000; index++) floats[index] = index;
    const buffer = device.allocate(4000);
    const argument = kernel.createArguments().set({ input: buffer, out: buffer, count: 1000, factor: 2 });
    const shape = { grid: [16, 1, 1], threads: kernel.threads, sharedBytes: 0 } as const;
    device.copyToDevice(buffer, pinned.address, 4000, stream);
    device.launch(kernel.handle, { ...shape, dependent: false }, argument.block, stream);
    device.launch(kernel.handle, { ...shape, dependent: true }, argument.block, stream);
    expect([double.plainLaunches(), double.dependentLaunches()]).toEqual([1, 1]);
    device.beginCapture(stream);
    device.launch(kernel.handle, { ...shape, dependent: true }, argument.block, stream);
    const graph = device.endCapture(stream);
    device.launchGraph(graph, stream);
    device.copyToHost(pinned.address, buffer, 4000, stream);
    const event = device.createEvent();
    device.record(event, stream);
    await device.whenDone(event);
    expect([...floats]).toEqual(Array.from({ length: 1000 }, (_, index) => index * 8));
    await store.written();
  });

  it("asks for as much shared memory as any launch of a kernel wants, whatever was asked for last", async () => {
    using device = found.driver.open(0);
    using store = new KernelStore(device, found.compiler, {
      cache: new KernelCache(folder.file("cache")),
      sourceFolder: writeKernels(folder, { scale: SCALE_KERNEL }),
    });
    const { handle, threads, createArguments } = (await store.module("scale")).kernel("scale");
    const stream = device.createStream();
    const { block } = createArguments().set({ input: 0n, out: 0n, count: 0, factor: 1 });
    const launch = (sharedBytes: number, dependent: boolean): void =>
      device.launch(handle, { grid: [1, 1, 1], threads, sharedBytes, dependent }, block, stream);
    launch(48 << 10, true);
    for (const dependent of [true, false]) {
      expect(() => launch((48 << 10) + 1, dependent)).toThrow(
        expect.objectContaining({
          code: "GPU_LAUNCH",
          details: expect.objectContaining({
            kind: "launch",
            number: 1,
            call: expect.stringMatching(/^cuLaunchKernel/),
          }),
        }),
      );
    }
    device.allowSharedBytes(handle, 60_000);
    device.allowSharedBytes(handle, 50_000);
    launch(60_000, true);
    device.synchronize();
    expect(() => device.allowSharedBytes(handle, (64 << 10) + 1)).toThrow(/at most 65536 bytes of shared memory/);
    await store.written();
  });

  it("waits for events on threads that knew no context", async () => {
    using device = found.driver.open(0);
    const stream = device.createStream();
    const buffer = device.allocate(64 << 20);
    const events = Array.from({ length: 5 }, () => device.createEvent());
    for (const event of events) {
      for (let round = 0; round < 4; round++) device.fill(buffer, round, 64 << 20, stream);
      device.record(event, stream);
    }
    await Promise.all(events.map((event) => device.whenDone(event)));
    expect(events.every((event) => device.isDone(event))).toBe(true);
  });

  it("makes pages of a read-only mapping known and copies from them", async () => {
    using device = found.driver.open(0);
    expect(device.registersReadOnly).toBe(true);
    const path = folder.file("pages");
    writeFileSync(
      path,
      Uint8Array.from({ length: 16_384 }, (_, index) => index % 253),
    );
    const descriptor = openSync(path, "r");
    const address = mapFile(descriptor, 16_384);
    closeSync(descriptor);
    if (typeof address !== "bigint") throw new TypeError(address.errorName);
    const host = address as bigint as HostAddress;
    await device.registerHost(host, 16_384);
    const [stream, event, buffer, pinned] = [
      device.createStream(),
      device.createEvent(),
      device.allocate(16_384),
      device.allocateHost(16_384),
    ];
    device.copyToDevice(buffer, host, 16_384, stream);
    device.copyToHost(pinned.address, buffer, 16_384, stream);
    device.record(event, stream);
    await device.whenDone(event);
    expect(pinned.bytes[16_383]).toBe(16_383 % 253);
    await device.unregisterHost(host);
    await expect(device.unregisterHost(host)).rejects.toThrow(/has no registered memory/);
    // The driver would let the modules wait for the pages.
    const order: string[] = [];
    const loads = [1, 2, 3].map(() => device.loadModule(new Uint8Array(64)).catch(() => order.push("module")));
    const registered = device.registerHost(host, 16_384).then(() => order.push("pages"));
    await Promise.all([...loads, registered]);
    expect(order).toEqual(["module", "module", "module", "pages"]);
    await device.unregisterHost(host);
    unmap(address, 16_384);
  });

  it("gives errors CUDA's own names", () => {
    using device = found.driver.open(0);
    expect(() => device.allocate(8 * 2 ** 30)).toThrow(
      expect.objectContaining({
        code: "GPU_OUT_OF_MEMORY",
        message: expect.stringMatching(
          /^\[cuda device 0\] cuMemAlloc_v2 returned 2 \(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"\) for 8589934592 bytes/,
        ),
      }),
    );
  });

  it("lets its context go, once for each time it was opened", () => {
    const before = double.retained();
    const [first, second] = [found.driver.open(0), found.driver.open(0)];
    expect(double.retained()).toBe(before + 2);
    first[Symbol.dispose]();
    second.free(second.allocate(16));
    second[Symbol.dispose]();
    second[Symbol.dispose]();
    expect(double.retained()).toBe(before);
  });

  it("is given while its context is being made, which is held once however early it is used", async () => {
    const before = double.retained();
    for (const [isUsed, isWaitedFor] of [
      [true, false],
      [true, true],
      [false, true],
      [false, false],
    ]) {
      const preparing = found.driver.prepare(0);
      const device = found.driver.open(0);
      expect(device.properties.architecture).toBe("sm_90");
      if (isWaitedFor) await device.whenReady?.();
      if (isUsed) device.free(device.allocate(16));
      if (isUsed) await preparing;
      if (isUsed) expect(double.retained()).toBe(before + 1);
      device[Symbol.dispose]();
      await preparing;
      expect(double.retained()).toBe(before);
    }
  });

  it("loads code and knows pages when its context is there, without being waited for", async () => {
    const preparing = found.driver.prepare(0);
    using device = found.driver.open(0);
    using store = new KernelStore(device, found.compiler, {
      cache: new KernelCache(folder.file("cache")),
      sourceFolder: writeKernels(folder, { scale: SCALE_KERNEL }),
    });
    const [module] = await Promise.all([store.module("scale"), preparing]);
    expect(module.kernel("scale").threads).toBeGreaterThan(0);
    expect(device.registersReadOnly).toBe(true);
    await store.written();
  });
});
