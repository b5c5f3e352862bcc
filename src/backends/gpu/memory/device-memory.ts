// Device memory in a few large slabs: an allocation by the driver takes up to a millisecond, and some drivers stop the
// device for it, so tensors, caches and scratch are parts of slabs. A block may be freed only if no work on the device
// uses it.

import { type DeviceAddress, type GpuDevice } from "../drivers/shared/driver.js";
import { traced } from "../drivers/shared/start-trace.js";

/** More than enough for 16-byte loads, matrix units and copies. */
const ALIGNMENT_BYTES = 256;
const FIRST_SLAB_BYTES = 16 << 20;
const LARGEST_SLAB_BYTES = 256 << 20;
/** Spare room in a reserved slab, for small blocks that its size does not include. */
const SMALL_BLOCKS_BYTES = 16 << 20;

/** An allocated range of device memory. */
export interface DeviceBlock {
  readonly address: DeviceAddress;
  readonly sizeBytes: number;
}

interface Span {
  offset: number;
  sizeBytes: number;
}

interface Slab {
  readonly address: DeviceAddress;
  readonly sizeBytes: number;
  /** Unused parts by ascending offset, never adjacent. */
  readonly free: Span[];
}

interface DeviceMemoryOptions {
  /** If false, every block is its own allocation, so that the emulator detects accesses past its end. */
  readonly slabs: boolean;
}

/** Allocates blocks of device memory from slabs. */
export class DeviceMemory implements Disposable {
  readonly #device: GpuDevice;
  readonly #usesSlabs: boolean;
  readonly #slabs: Slab[] = [];
  readonly #homes = new Map<DeviceBlock, Slab>();
  #nextSlabBytes = FIRST_SLAB_BYTES;
  #usedBytes = 0;

  constructor(device: GpuDevice, { slabs }: DeviceMemoryOptions) {
    this.#device = device;
    this.#usesSlabs = slabs;
  }

  /** Bytes of all blocks in use. */
  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The driver's free memory and the unused parts of slabs. */
  get availableBytes(): number {
    let unusedBytes = 0;
    for (const { free } of this.#slabs) for (const span of free) unusedBytes += span.sizeBytes;
    return this.#device.memory().freeBytes + unusedBytes;
  }

  /**
   * Allocates a slab that blocks of these sizes fill, because calls of the driver may have to wait while they are
   * needed. Does nothing if the driver has no memory for it.
   */
  reserve(sizesBytes: readonly number[]): void {
    const wantedBytes = sizesBytes.reduce((total, sizeBytes) => total + blockBytes(sizeBytes), SMALL_BLOCKS_BYTES);
    if (!this.#usesSlabs || wantedBytes <= FIRST_SLAB_BYTES + SMALL_BLOCKS_BYTES) return;
    try {
      this.#slabs.push(newSlab(this.#device, wantedBytes));
    } catch {
      // Blocks are allocated one by one, and the one that does not fit is reported.
    }
  }

  /** Allocates a block that comes and goes: a large one is a slab of its own, and leaves no gap in another. */
  allocateApart(sizeBytes: number): DeviceBlock {
    const wantedBytes = blockBytes(sizeBytes);
    if (!this.#usesSlabs || wantedBytes <= FIRST_SLAB_BYTES) return this.allocate(sizeBytes);
    try {
      return this.#take(this.#addSlab(wantedBytes, { exact: true }), wantedBytes);
    } catch {
      // There may be room in another slab.
      return this.allocate(sizeBytes);
    }
  }

  /** Allocates a block; throws the driver's GPU_OUT_OF_MEMORY if there is no memory left. */
  allocate(sizeBytes: number): DeviceBlock {
    const wantedBytes = blockBytes(sizeBytes);
    const slab = this.#slabs.find(({ free }) => free.some((span) => span.sizeBytes >= wantedBytes));
    return this.#take(slab ?? this.#addSlab(wantedBytes), wantedBytes);
  }

  free(block: DeviceBlock): void {
    const slab = this.#homes.get(block);
    if (slab === undefined) return;
    this.#homes.delete(block);
    this.#usedBytes -= block.sizeBytes;
    giveBack(slab, Number(block.address - slab.address), block.sizeBytes);
    if (isEmpty(slab) && (!this.#usesSlabs || slab.sizeBytes > FIRST_SLAB_BYTES)) this.#drop(slab);
  }

  /** Frees everything, including blocks in use. */
  [Symbol.dispose](): void {
    for (const { address } of this.#slabs.splice(0)) this.#device.free(address);
    this.#homes.clear();
    this.#usedBytes = 0;
  }

  #take(slab: Slab, sizeBytes: number): DeviceBlock {
    const block = cut(slab, sizeBytes);
    this.#homes.set(block, slab);
    this.#usedBytes += sizeBytes;
    return block;
  }

  /** Allocates only the needed size if the device has no room for a whole slab. */
  #addSlab(wantedBytes: number, { exact = !this.#usesSlabs } = {}): Slab {
    const slabBytes = exact ? wantedBytes : Math.max(wantedBytes, this.#nextSlabBytes);
    let slab: Slab;
    try {
      slab = newSlab(this.#device, slabBytes);
      if (!exact) this.#nextSlabBytes = Math.min(LARGEST_SLAB_BYTES, this.#nextSlabBytes * 2);
    } catch (error) {
      const empty = this.#slabs.filter(isEmpty);
      for (const unused of empty) this.#drop(unused);
      if (slabBytes === wantedBytes && empty.length === 0) throw error;
      slab = newSlab(this.#device, wantedBytes);
    }
    this.#slabs.push(slab);
    return slab;
  }

  #drop(slab: Slab): void {
    this.#slabs.splice(this.#slabs.indexOf(slab), 1);
    this.#device.free(slab.address);
  }
}

function blockBytes(sizeBytes: number): number {
  return roundUp(Math.max(1, sizeBytes), ALIGNMENT_BYTES);
}

function newSlab(device: GpuDevice, sizeBytes: number): Slab {
  const address = traced(`driver: allocate ${sizeBytes} bytes`, () => device.allocate(sizeBytes));
  return { address, sizeBytes, free: [{ offset: 0, sizeBytes }] };
}

function isEmpty({ free, sizeBytes }: Slab): boolean {
  return free.length === 1 && free[0].sizeBytes === sizeBytes;
}

/** Takes the smallest part that is large enough; the caller knows that there is one. */
function cut({ address, free }: Slab, sizeBytes: number): DeviceBlock {
  let best = -1;
  for (const [index, span] of free.entries()) {
    if (span.sizeBytes >= sizeBytes && (best === -1 || span.sizeBytes < free[best].sizeBytes)) best = index;
  }
  const span = free[best];
  const block = { address: (address + BigInt(span.offset)) as DeviceAddress, sizeBytes };
  span.offset += sizeBytes;
  span.sizeBytes -= sizeBytes;
  if (span.sizeBytes === 0) free.splice(best, 1);
  return block;
}

function giveBack({ free }: Slab, offset: number, sizeBytes: number): void {
  const found = free.findIndex((span) => span.offset > offset);
  const index = found === -1 ? free.length : found;
  free.splice(index, 0, { offset, sizeBytes });
  mergeWithNext(free, index);
  if (index > 0) mergeWithNext(free, index - 1);
}

function mergeWithNext(free: Span[], index: number): void {
  const span = free[index];
  const next = free[index + 1];
  if (next === undefined || span.offset + span.sizeBytes !== next.offset) return;
  span.sizeBytes += next.sizeBytes;
  free.splice(index + 1, 1);
}

/** Rounds up to a multiple of `unit`. */
export function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
