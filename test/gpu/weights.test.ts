// Blocks of any bytes through weights/repack.hip and weights/unpack.hip on the emulated device: the halves that the BLAS
// library gets are those that src/quant decodes, rounded once.

import { expect, it } from "vitest";
import type { DeviceAddress, GpuDevice, StreamHandle } from "../../src/backends/gpu/drivers/shared/driver.js";
import type { DetectedHip } from "../../src/backends/gpu/drivers/hip/detect.js";
import { KernelStore, type LoadedKernel } from "../../src/backends/gpu/kernels/kernel-store.js";
import { weightLayout } from "../../src/backends/gpu/memory/weight-layout.js";
import { decodeTensor } from "../../src/quant/codec.js";
import { floatToHalf } from "../../src/quant/half.js";
import { layoutByName, type SupportedTypeName } from "../../src/quant/layout.js";
import { anyBlocks } from "../conformance/models/random-blocks.js";
import { Dice } from "../support/dice.js";
import { describeEmulator } from "./emulator/build.js";
import { emulatedHip, type WaveSize } from "./emulated-hip.js";
import { FULL_RUN } from "../support/full-run.js";

/** A weight of these is one product of numbers that a half can be; others are rounded on the way. */
const EXACT_TYPES: readonly SupportedTypeName[] = [
  "Q4_0",
  "Q5_0",
  "Q8_0",
  "IQ4_NL",
  "TQ1_0",
  "TQ2_0",
  "MXFP4",
  "NVFP4",
];
const FEW_TYPES: readonly SupportedTypeName[] = ["IQ4_NL", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"];
const TYPES = FULL_RUN ? EXACT_TYPES : FEW_TYPES;
const WAVE_SIZES: readonly WaveSize[] = [32, 64];
/** Rows whose planes end between multiples of 16 bytes. */
const WIDTH = 768;
const ROWS = 5;
const THREADS = 256;

interface Launched {
  readonly kernel: LoadedKernel;
  readonly values: Readonly<Record<string, bigint | number>>;
}

function launch(device: GpuDevice, stream: StreamHandle, { kernel, values }: Launched): void {
  const shape = {
    grid: [Math.ceil((ROWS * WIDTH) / 32 / THREADS), 1, 1],
    threads: kernel.threads,
    sharedBytes: 0,
    dependent: false,
  } as const;
  device.launch(kernel.handle, shape, kernel.createArguments().set(values).block, stream);
}

/** The file's bytes as halves, by way of the device's layout. */
async function unpacked(
  { driver, compiler }: DetectedHip,
  type: SupportedTypeName,
  bytes: Uint8Array,
): Promise<Uint16Array> {
  const layout = weightLayout(type, WIDTH, ROWS);
  using device = driver.open(0);
  using store = new KernelStore(device, compiler);
  const [repack, unpack] = await Promise.all(
    ["repack", "unpack"].map((file) => store.module(`weights/${file}`, { TYPE0: layout.typeId })),
  );
  const stream = device.createStream();
  const event = device.createEvent();
  const halvesBytes = ROWS * WIDTH * 2;
  const pinned = device.allocateHost(Math.max(bytes.length, halvesBytes));
  const [source, weights, halves] = [bytes.length, layout.sizeBytes, halvesBytes].map((sizeBytes): DeviceAddress =>
    device.allocate(sizeBytes),
  );
  pinned.bytes.set(bytes);
  device.copyToDevice(source, pinned.address, bytes.length, stream);
  launch(device, stream, {
    kernel: repack.kernel("repack_rows"),
    values: { source, target: weights, width: WIDTH, rows: ROWS },
  });
  launch(device, stream, { kernel: unpack.kernel("unpack"), values: { weights, halves, rows: ROWS, width: WIDTH } });
  device.copyToHost(pinned.address, halves, halvesBytes, stream);
  device.record(event, stream);
  await device.whenDone(event);
  const found = Uint16Array.from(new Uint16Array(pinned.bytes.buffer, pinned.bytes.byteOffset, ROWS * WIDTH));
  await store.written();
  for (const address of [source, weights, halves]) device.free(address);
  device.freeHost(pinned);
  device.destroyEvent(event);
  device.destroyStream(stream);
  return found;
}

describeEmulator("weights on the emulated device", () => {
  it.each(WAVE_SIZES.flatMap((waveSize) => TYPES.map((type) => ({ type, waveSize }))))(
    "$type blocks of any bytes are unpacked to halves in waves of $waveSize",
    async ({ type, waveSize }) => {
      const { blockElements, blockBytes } = layoutByName(type);
      const bytes = anyBlocks(new Dice(9), type, (ROWS * WIDTH) / blockElements);
      expect(bytes).toHaveLength(((ROWS * WIDTH) / blockElements) * blockBytes);
      const values = decodeTensor(type, bytes, ROWS * WIDTH);
      // The sign of a zero does not matter to a matmul.
      const expected = Uint16Array.from(values, (value) => floatToHalf(value === 0 ? 0 : value));
      const found = (await unpacked(emulatedHip(`wave-${waveSize}`, { waveSize }), type, bytes)).map((half) =>
        half === 0x8000 ? 0 : half,
      );
      expect(found).toEqual(expected);
      expect(new Set(found).size).toBeGreaterThan(30);
    },
  );
});
