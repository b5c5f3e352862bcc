// The HIP code path on the test double: memory, streams, events, modules, graphs, failures and the end of a device.

import { afterEach, beforeEach, expect, it } from "vitest";
import { chooseDevice } from "../../../src/backends/gpu/drivers/device-selection.js";
import type {
  DeviceAddress,
  EventHandle,
  GpuDevice,
  HostAddress,
} from "../../../src/backends/gpu/drivers/shared/driver.js";
import { detectHip, type DetectedHip } from "../../../src/backends/gpu/drivers/hip/detect.js";
import { KernelCache } from "../../../src/backends/gpu/kernels/kernel-cache.js";
import { KernelStore } from "../../../src/backends/gpu/kernels/kernel-store.js";
import { isUnavailableDriver } from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import { GpuError } from "../../../src/errors.js";
import { describeEmulator, emulatorEnvironment, type EmulatorSettings } from "../emulator/build.js";
import { Emulator } from "../emulator/ffi.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { SCALE_KERNEL, writeKernels } from "./kernels.js";

/** The library reads its settings when it is reset, from this process's environment. */
function start(settings: EmulatorSettings = {}): DetectedHip {
  Object.assign(process.env, emulatorEnvironment(settings));
  emulator().reset(settings);
  const found = detectHip();
  if (isUnavailableDriver(found)) throw new TypeError(found.reason);
  return found;
}

let opened: Emulator | undefined;
function emulator(): Emulator {
  opened ??= new Emulator();
  return opened;
}

function leftOver(): readonly number[] {
  return ["allocations", "registrations", "streams", "events", "modules", "graphs"].map((what) =>
    emulator().count(what),
  );
}

async function roundTrip(device: GpuDevice, bytes: Uint8Array): Promise<Uint8Array> {
  const stream = device.createStream();
  const event = device.createEvent();
  const pinned = device.allocateHost(2 * bytes.length);
  const buffer = device.allocate(2 * bytes.length);
  pinned.bytes.set(bytes);
  device.copyToDevice(buffer, pinned.address, bytes.length, stream);
  device.copyOnDevice((buffer + BigInt(bytes.length)) as DeviceAddress, buffer, bytes.length, stream);
  device.copyToHost(
    (pinned.address + BigInt(bytes.length)) as HostAddress,
    (buffer + BigInt(bytes.length)) as DeviceAddress,
    bytes.length,
    stream,
  );
  device.record(event, stream);
  await device.whenDone(event);
  expect(device.isDone(event)).toBe(true);
  const result = pinned.bytes.slice(bytes.length);
  device.free(buffer);
  device.freeHost(pinned);
  device.destroyEvent(event);
  device.destroyStream(stream);
  return result;
}

describeEmulator("a HIP device", () => {
  let folder: TemporaryFolder;
  beforeEach(() => {
    folder = new TemporaryFolder();
  });
  afterEach(async () => {
    await Promise.all(stores.map((store) => store.written()));
    stores.length = 0;
    folder[Symbol.dispose]();
  });

  const stores: KernelStore[] = [];
  function openStore({ compiler }: DetectedHip, device: GpuDevice): KernelStore {
    const sourceFolder = writeKernels(folder, { scale: SCALE_KERNEL });
    const store = new KernelStore(device, compiler, { cache: new KernelCache(folder.file("cache")), sourceFolder });
    stores.push(store);
    return store;
  }

  it("tells its properties from the newer layout", () => {
    const { driver } = start({ waveSize: 64, devices: 2, memoryBytes: 512 * 2 ** 20 });
    expect(driver.version).toMatch(/^HIP 6\.4\.\d+$/);
    const devices = driver.devices();
    expect(devices).toHaveLength(2);
    expect(devices[0]).toMatchObject({ index: 0, architecture: "gfx90c", waveSize: 64, integrated: true });
    expect(devices[1]).toMatchObject({
      index: 1,
      architecture: "gfx90a",
      waveSize: 64,
      integrated: false,
      totalBytes: 512 * 2 ** 20,
      sharedBytes: 65_536,
    });
    expect(chooseDevice("hip", devices, undefined).properties.index).toBe(1);
    expect(start().driver.devices()).toMatchObject([{ index: 0, architecture: "gfx1100", waveSize: 32 }]);
  });

  it("copies there, about and back", async () => {
    const { driver } = start();
    using device = driver.open(0);
    const bytes = Uint8Array.from({ length: 100_003 }, (_, index) => index * 7);
    expect(await roundTrip(device, bytes)).toEqual(bytes);
    const { freeBytes, totalBytes } = device.memory();
    expect(freeBytes).toBeLessThanOrEqual(totalBytes);
  });

  for (const waveSize of [32, 64] as const) {
    it(`launches a kernel, recorded or not, in waves of ${waveSize}`, async () => {
      const found = start({ waveSize });
      using device = found.driver.open(0);
      using store = openStore(found, device);
      const count = 1000;
      const kernel = (await store.module("scale")).kernel("scale");
      const stream = device.createStream();
      const pinned = device.allocateHost(count * 4);
      const floats = new Float32Array(pinned.bytes.buffer, 0, count);
      floats.set(Float32Array.from({ length: count }, (_, index) => index));
      const buffer = device.allocate(count * 4);
      const argument = kernel.createArguments().set({ input: buffer, out: buffer, count, factor: 3 });
      const shape = {
        grid: [Math.ceil(count / kernel.threads), 1, 1],
        threads: kernel.threads,
        sharedBytes: 0,
        dependent: true,
      } as const;
      device.copyToDevice(buffer, pinned.address, count * 4, stream);
      device.launch(kernel.handle, shape, argument.block, stream);
      device.beginCapture(stream);
      device.launch(kernel.handle, shape, argument.block, stream);
      const graph = device.endCapture(stream);
      // A recording keeps the argument as it was.
      argument.update({ factor: 100 });
      device.launchGraph(graph, stream);
      device.launchGraph(graph, stream);
      device.copyToHost(pinned.address, buffer, count * 4, stream);
      const [begin, end] = [device.createEvent({ timed: true }), device.createEvent({ timed: true })];
      device.record(begin, stream);
      device.record(end, stream);
      await device.whenDone(end);
      expect(device.elapsedMs(begin, end)).toBeGreaterThanOrEqual(0);
      expect([...floats]).toEqual(Array.from({ length: count }, (_, index) => index * 27));
      device.destroyGraph(graph);
    });
  }

  it("waits for many events at once without blocking the process", async () => {
    const { driver } = start();
    using device = driver.open(0);
    const streams = Array.from({ length: 6 }, () => device.createStream());
    const buffer = device.allocate(64 << 20);
    const events = streams.map((stream, index): EventHandle => {
      const event = device.createEvent({ wait: index % 2 === 0 ? "block" : "spin" });
      for (let round = 0; round < 4; round++) device.fill(buffer, round, 64 << 20, stream);
      device.record(event, stream);
      return event;
    });
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await Promise.all(events.map((event) => device.whenDone(event)));
    clearInterval(timer);
    expect(turns).toBeGreaterThan(0);
    for (const event of events) expect(device.isDone(event)).toBe(true);
  });

  it("orders streams by events", async () => {
    const { driver } = start();
    using device = driver.open(0);
    const [first, second] = [device.createStream(), device.createStream()];
    const buffer = device.allocate(32 << 20);
    const result = device.allocateHost(1);
    const [written, read] = [device.createEvent(), device.createEvent()];
    device.fill(buffer, 1, 32 << 20, first);
    device.fill(buffer, 9, 32 << 20, first);
    device.record(written, first);
    device.streamWait(second, written);
    device.copyToHost(result.address, (buffer + BigInt((32 << 20) - 1)) as DeviceAddress, 1, second);
    device.record(read, second);
    await device.whenDone(read);
    expect(result.bytes[0]).toBe(9);
  });

  it("says what memory was asked for and what there is when it runs out, and goes on", () => {
    const { driver } = start({ memoryBytes: 64 * 2 ** 20 });
    using device = driver.open(0);
    const held = device.allocate(40 * 2 ** 20);
    let error: unknown;
    try {
      device.allocate(40 * 2 ** 20);
    } catch (caught) {
      error = caught;
    }
    expect(error).toBeInstanceOf(GpuError);
    const { code, message, details } = error as GpuError;
    expect(code).toBe("GPU_OUT_OF_MEMORY");
    expect(details).toMatchObject({
      kind: "out of memory",
      call: "hipMalloc",
      number: 2,
      name: "hipErrorOutOfMemory",
      device: 0,
      sizeBytes: 40 * 2 ** 20,
    });
    expect(message).toMatch(
      /^\[hip device 0\] hipMalloc returned 2 \(hipErrorOutOfMemory.*\) for 41943040 bytes \(\d+ of 67108864 bytes are free\); use a shorter context/,
    );
    device.free(held);
    device.free(device.allocate(40 * 2 ** 20));
  });

  for (const [failure, code, act] of [
    ["hipHostMalloc:1:2", "GPU_OUT_OF_MEMORY", (device) => device.allocateHost(100)],
    [
      "hipMemcpyHtoDAsync:1:1",
      "GPU_COPY",
      (device) => device.copyToDevice(device.allocate(16), device.allocateHost(16).address, 16, device.createStream()),
    ],
    ["hipMemsetD8Async:1:1", "GPU_COPY", (device) => device.fill(device.allocate(16), 0, 16, device.createStream())],
    ["hipStreamCreateWithFlags:1:999", "GPU_INTERNAL", (device) => device.createStream()],
    ["hipModuleLoadData:1:209", "GPU_KERNEL_LOAD", (device) => device.loadModule(new Uint8Array(64))],
    ["hipMalloc:1:719", "GPU_DEVICE_LOST", (device) => device.allocate(16)],
    ["hipMalloc:1:100", "GPU_DEVICE_LOST", (device) => device.allocate(16)],
    ["hipStreamBeginCapture:1:1", "GPU_LAUNCH", (device) => device.beginCapture(device.createStream())],
  ] as readonly (readonly [string, string, (device: GpuDevice) => unknown])[]) {
    it(`gives ${code} for ${failure}`, async () => {
      const { driver } = start({ failures: [failure] });
      const device = driver.open(0);
      await expect((async () => await act(device))()).rejects.toMatchObject({ code });
      device[Symbol.dispose]();
      expect(leftOver()).toEqual([0, 0, 0, 0, 0, 0]);
    });
  }

  it("reports a device that is lost in mid-work, and can be opened anew", async () => {
    const found = start({ failures: ["lost:2"] });
    const device = found.driver.open(0);
    const store = openStore(found, device);
    const kernel = (await store.module("scale")).kernel("scale");
    const stream = device.createStream();
    const buffer = device.allocate(256);
    const event = device.createEvent();
    const argument = kernel.createArguments().set({ input: buffer, out: buffer, count: 64, factor: 3 });
    const shape = { grid: [1, 1, 1], threads: 64, sharedBytes: 0, dependent: false } as const;
    const work = async (): Promise<void> => {
      for (let round = 0; round < 4; round++) device.launch(kernel.handle, shape, argument.block, stream);
      device.record(event, stream);
      await device.whenDone(event);
    };
    await expect(work()).rejects.toMatchObject({ code: "GPU_DEVICE_LOST" });
    expect(() => device.allocate(16)).toThrow(expect.objectContaining({ code: "GPU_DEVICE_LOST" }));
    device[Symbol.dispose]();
    using again = start().driver.open(0);
    expect(await roundTrip(again, new Uint8Array([1, 2, 3]))).toEqual(new Uint8Array([1, 2, 3]));
  });

  it("rejects handles that were given back or never given out, before they reach the library", () => {
    const { driver } = start();
    using device = driver.open(0);
    const buffer = device.allocate(16);
    const stream = device.createStream();
    device.free(buffer);
    device.destroyStream(stream);
    expect(() => device.free(buffer)).toThrow(/has no buffer/);
    expect(() => device.free(0x1234n as DeviceAddress)).toThrow(/has no buffer/);
    expect(() => device.destroyStream(stream)).toThrow(/has no stream/);
    for (const size of [0, -1, 0.5, Number.NaN, 2 ** 60])
      expect(() => device.allocate(size)).toThrow(/expected a size of at least one byte/);
  });

  it("frees everything it handed out, once, and refuses to be used afterwards", async () => {
    const found = start();
    const device = found.driver.open(0);
    const store = openStore(found, device);
    const kernel = (await store.module("scale")).kernel("scale");
    const stream = device.createStream();
    const buffer = device.allocate(64 << 20);
    device.allocateHost(1000);
    const event = device.createEvent();
    const argument = kernel.createArguments().set({ input: buffer, out: buffer, count: 64, factor: 3 });
    device.beginCapture(stream);
    device.launch(
      kernel.handle,
      { grid: [1, 1, 1], threads: 64, sharedBytes: 0, dependent: false },
      argument.block,
      stream,
    );
    device.endCapture(stream);
    device.beginCapture(stream);
    device.abandonCapture(stream);
    for (let round = 0; round < 8; round++) device.fill(buffer, round, 64 << 20, stream);
    device.record(event, stream);
    const waiting = device.whenDone(event);
    device[Symbol.dispose]();
    device[Symbol.dispose]();
    await waiting.catch(() => {});
    const [allocations, registrations, streams, events, modules, graphs] = leftOver();
    expect([allocations, registrations, streams, modules, graphs]).toEqual([0, 0, 0, 0, 0]);
    // One that a thread was looking at is left alone.
    expect(events).toBeLessThanOrEqual(1);
    for (const use of [
      () => device.allocate(1),
      () => device.memory(),
      () => device.launchGraph(1n as never, stream),
      () => device.createArguments(8),
    ]) {
      expect(use).toThrow(expect.objectContaining({ code: "DISPOSED" }));
    }
    await expect(device.whenDone(event)).rejects.toMatchObject({ code: "DISPOSED" });
  });

  it("keeps devices apart", async () => {
    const { driver } = start({ devices: 2 });
    using first = driver.open(0);
    using second = driver.open(1);
    const results = await Promise.all(
      [first, second].map((device, index) => roundTrip(device, new Uint8Array(10).fill(index + 1))),
    );
    expect(results).toEqual([new Uint8Array(10).fill(1), new Uint8Array(10).fill(2)]);
    expect(() => driver.open(2)).toThrow(expect.objectContaining({ code: "GPU_DEVICE_NOT_FOUND" }));
    expect(() => driver.open(-1)).toThrow(/there is no device -1, only 0 to 1/);
  });
});
