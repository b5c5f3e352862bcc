// From a file to the device. If the driver can, it copies from mapped pages; otherwise files are read into pinned
// memory, several reads at a time. Types whose file layout does not suit wide loads pass through staging memory and are
// repacked there. An upload ends when its copies are queued: it waits for the device only for room in the ring.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { MappedLocation, TensorSource } from "../../contract.js";
import type { DeviceBlock } from "./device-memory.js";
import type { DeviceAddress } from "../drivers/shared/driver.js";
import { tracedAsync } from "../drivers/shared/start-trace.js";
import type { KernelArguments } from "../kernels/argument-layout.js";
import type { LoadedKernel } from "../kernels/kernel-store.js";
import { MappedWindows, type WindowPart } from "./mapped-windows.js";
import { PinnedRing } from "./pinned-ring.js";
import { type GpuRuntime, PINNED_CHUNK_BYTES } from "./runtime.js";
import { GpuTensor } from "./tensor.js";
import { hasDeviceLayout, type WeightLayout, weightLayout } from "./weight-layout.js";

const REPACK_THREADS = 256;
const BLOCK_WEIGHTS = 32;

/** How a tensor is stored on the device. */
export function layoutOf({ layout, shape, elements }: TensorDescriptor): WeightLayout {
  return weightLayout(layout.name, shape[0], elements / shape[0]);
}

/** Why a tensor's rows cannot be uploaded; undefined if they can. */
export function unsupportedUploadReason(descriptor: TensorDescriptor): string | undefined {
  const { repacked, fileRowBytes } = layoutOf(descriptor);
  return repacked && fileRowBytes > PINNED_CHUNK_BYTES
    ? `rows of ${fileRowBytes} bytes exceed the ${PINNED_CHUNK_BYTES} bytes that are repacked at a time`
    : undefined;
}

/** Whole rows, or the whole tensor if it is not repacked. */
interface UploadChunk {
  readonly byteOffset: number;
  readonly sizeBytes: number;
  readonly firstRow: number;
  readonly rows: number;
}

interface Repack {
  readonly kernel: LoadedKernel;
  readonly argument: KernelArguments;
}

/** Uploads tensors to one device. */
export class Uploader implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #windows: MappedWindows;
  readonly #ring: PinnedRing;
  readonly #repacks = new Map<number, Promise<Repack>>();

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
    this.#windows = new MappedWindows(runtime.device);
    this.#ring = new PinnedRing(runtime.device, runtime.copies);
  }

  /** Loads the repacking kernels for tensors like these, so that the first upload does not wait for them. */
  prepare(descriptors: readonly TensorDescriptor[]): void {
    const layouts = descriptors.filter(({ layout }) => hasDeviceLayout(layout.name)).map(layoutOf);
    // The upload that needs one loads it again and reports the failure.
    for (const { typeId } of layouts.filter(({ repacked }) => repacked)) this.#repack(typeId).catch(() => {});
  }

  async upload(source: TensorSource): Promise<GpuTensor> {
    const { descriptor } = source;
    const layout = layoutOf(descriptor);
    this.#runtime.assertUsable();
    this.#runtime.marks.weights.begin();
    const location = this.#runtime.device.registersReadOnly ? source.mappedLocation() : undefined;
    let block: DeviceBlock | undefined;
    this.#windows.enter();
    try {
      // Pages are registered while the repacking kernel is loaded.
      if (location !== undefined) this.#windows.open(location);
      const repack = layout.repacked ? await this.#repack(layout.typeId) : undefined;
      block = this.#runtime.allocate(descriptor.name, layout.sizeBytes);
      const repacked = repack === undefined ? undefined : { repack, staging: this.#runtime.staging() };
      const transfer = new Transfer(this.#runtime, descriptor, block, repacked);
      await tracedAsync(`upload ${descriptor.name}`, async () => {
        if (location === undefined || !(await this.#fromMapping(location, transfer)))
          await this.#fromReads(source, transfer);
      });
      return new GpuTensor(this.#runtime, descriptor, block, {
        arrived: () => this.#windows.leave(),
        disposed: () => this.#windows.letGo(),
      });
    } catch (error) {
      this.#giveUp(block);
      this.#windows.leave();
      throw this.#runtime.noticed(error);
    }
  }

  #giveUp(block: DeviceBlock | undefined): void {
    if (block === undefined) return;
    this.#runtime.release(() => {
      this.#runtime.copies.drain();
      this.#runtime.memory.free(block);
    });
  }

  /** Resolves when only pages of tensors in transit are registered. */
  async ended(): Promise<void> {
    await this.#windows.ended();
  }

  /** Call after the last upload. */
  [Symbol.dispose](): void {
    this.#runtime.release(() => {
      this.#runtime.copies.drain();
      this.#windows.letGo();
      this.#ring[Symbol.dispose]();
    });
  }

  /** False if the driver refused pages: they are read instead. */
  async #fromMapping(location: MappedLocation, transfer: Transfer): Promise<boolean> {
    for (const chunk of transfer.chunks(this.#runtime.stagingBytes)) {
      const parts: WindowPart[] = [];
      const from = { mapping: location.mapping, byteOffset: location.byteOffset + chunk.byteOffset };
      for await (const part of this.#windows.parts(from, chunk.sizeBytes)) {
        if (part === undefined) return false;
        parts.push(part);
      }
      for (const part of parts) transfer.copy(chunk, part);
      transfer.finish(chunk);
    }
    return true;
  }

  /** All reads are requested at once; the ring limits them to its number of slots. */
  async #fromReads(source: TensorSource, transfer: Transfer): Promise<void> {
    let failed = false;
    const bring = async (chunk: UploadChunk): Promise<void> => {
      const slot = await this.#ring.take();
      if (failed) return this.#ring.returnUnused(slot);
      try {
        await source.read(slot.memory.bytes.subarray(0, chunk.sizeBytes), chunk.byteOffset);
        transfer.copy(chunk, { address: slot.memory.address, byteOffset: 0, sizeBytes: chunk.sizeBytes });
        transfer.finish(chunk);
      } catch (error) {
        failed = true;
        this.#ring.returnUnused(slot);
        throw error;
      }
      this.#ring.returnAfterCopy(slot);
    };
    const outcomes = await Promise.allSettled(transfer.chunks(PINNED_CHUNK_BYTES).map(bring));
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }

  #repack(type: number): Promise<Repack> {
    const known = this.#repacks.get(type);
    if (known !== undefined) return known;
    const repack = this.#runtime.kernels.module("weights/repack", { TYPE0: type }).then((module) => {
      const kernel = module.kernel("repack_rows");
      return { kernel, argument: kernel.createArguments() };
    });
    this.#repacks.set(type, repack);
    repack.catch(() => this.#repacks.delete(type));
    return repack;
  }
}

/** The upload of one tensor. Everything for one chunk is queued at once, so that uploads can share staging memory. */
class Transfer {
  readonly #runtime: GpuRuntime;
  readonly #layout: WeightLayout;
  readonly #width: number;
  readonly #target: DeviceBlock;
  readonly #repack: Repack | undefined;
  readonly #staging: DeviceBlock | undefined;

  constructor(
    runtime: GpuRuntime,
    descriptor: TensorDescriptor,
    target: DeviceBlock,
    repacked: { readonly repack: Repack; readonly staging: DeviceBlock } | undefined,
  ) {
    this.#runtime = runtime;
    this.#layout = layoutOf(descriptor);
    this.#width = descriptor.shape[0];
    this.#target = target;
    this.#repack = repacked?.repack;
    this.#staging = repacked?.staging;
  }

  chunks(mostBytes: number): readonly UploadChunk[] {
    const { fileRowBytes, rowBytes, sizeBytes } = this.#layout;
    const allRows = sizeBytes / rowBytes;
    const fileBytes = allRows * fileRowBytes;
    const chunks: UploadChunk[] = [];
    if (this.#repack === undefined) {
      for (let byteOffset = 0; byteOffset < fileBytes; byteOffset += mostBytes) {
        chunks.push({ byteOffset, sizeBytes: Math.min(mostBytes, fileBytes - byteOffset), firstRow: 0, rows: 0 });
      }
      return chunks;
    }
    const chunkRows = Math.max(1, Math.floor(mostBytes / fileRowBytes));
    for (let firstRow = 0; firstRow < allRows; firstRow += chunkRows) {
      const rows = Math.min(chunkRows, allRows - firstRow);
      chunks.push({ byteOffset: firstRow * fileRowBytes, sizeBytes: rows * fileRowBytes, firstRow, rows });
    }
    return chunks;
  }

  copy(chunk: UploadChunk, part: WindowPart): void {
    const { device, copies } = this.#runtime;
    const target =
      this.#staging === undefined ? this.#target.address + BigInt(chunk.byteOffset) : this.#staging.address;
    device.copyToDevice(
      (target + BigInt(part.byteOffset)) as DeviceAddress,
      part.address,
      part.sizeBytes,
      copies.stream,
    );
  }

  /** Queues the work that follows the copies of a chunk. */
  finish({ firstRow, rows }: UploadChunk): void {
    if (this.#repack === undefined || this.#staging === undefined) return;
    const { kernel, argument } = this.#repack;
    const { rowBytes } = this.#layout;
    const width = this.#width;
    argument.set({
      source: this.#staging.address,
      target: this.#target.address + BigInt(firstRow * rowBytes),
      width,
      rows,
    });
    const blocks = Math.ceil((rows * (width / BLOCK_WEIGHTS)) / REPACK_THREADS);
    this.#runtime.device.launch(
      kernel.handle,
      { grid: [blocks, 1, 1], threads: kernel.threads, sharedBytes: 0, dependent: false },
      argument.block,
      this.#runtime.copies.stream,
    );
  }
}
