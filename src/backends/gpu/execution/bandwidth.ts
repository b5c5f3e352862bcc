// Bytes per second at which the device reads its own memory: a simple kernel over a buffer larger than any cache, timed
// by the device's clock.

import type { DeviceMemory } from "../memory/device-memory.js";
import type { GpuDevice } from "../drivers/shared/driver.js";
import type { KernelStore } from "../kernels/kernel-store.js";

const ROUNDS = 8;
/** Enough to keep several blocks active on every multiprocessor. */
const BLOCKS_PER_MULTIPROCESSOR = 32;
/** Bytes that one block reads at a time: kernels/rows/bandwidth.hip. */
const BLOCK_BYTES = 256 * 8 * 16;

/** Measures how fast the device reads a buffer of `sizeBytes`, in bytes per second. */
export async function measureReadBandwidth(
  device: GpuDevice,
  memory: DeviceMemory,
  kernels: KernelStore,
  sizeBytes: number,
): Promise<number> {
  const kernel = (await kernels.module("rows/bandwidth")).kernel("read_all");
  const wholeBytes = Math.max(1, Math.floor(sizeBytes / BLOCK_BYTES)) * BLOCK_BYTES;
  const blocks = Math.min(wholeBytes / BLOCK_BYTES, device.properties.multiprocessors * BLOCKS_PER_MULTIPROCESSOR);
  const buffer = memory.allocate(wholeBytes);
  const never = memory.allocate(4);
  const stream = device.createStream();
  const [start, end] = [device.createEvent({ timed: true }), device.createEvent({ timed: true })];
  try {
    const argument = kernel
      .createArguments()
      .set({ source: buffer.address, never: never.address, size_bytes: wholeBytes, blocks });
    const shape = { grid: [blocks, 1, 1], threads: kernel.threads, sharedBytes: 0, dependent: false } as const;
    device.fill(buffer.address, 1, wholeBytes, stream);
    let bestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS; round++) {
      device.record(start, stream);
      device.launch(kernel.handle, shape, argument.block, stream);
      device.record(end, stream);
      await device.whenDone(end);
      bestMs = Math.min(bestMs, device.elapsedMs(start, end));
    }
    return wholeBytes / (bestMs / 1e3);
  } finally {
    device.destroyEvent(start);
    device.destroyEvent(end);
    device.destroyStream(stream);
    memory.free(never);
    memory.free(buffer);
  }
}
