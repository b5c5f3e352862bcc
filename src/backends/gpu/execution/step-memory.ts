// The memory of a program's steps, allocated at its first step and kept: scratch, constants, the step buffer with its
// pinned staging copy, and pinned memory for results. Addresses are fixed, except the step buffer's, which moves when
// block tables or masks exceed it. Staging and results exist twice once a step has been queued behind a running one.

import { GpuError } from "../../../errors.js";
import { kvGroups } from "../../../graph/cache-groups.js";
import type { DeviceBlock } from "../memory/device-memory.js";
import type { DeviceAddress, HostAddress, PinnedMemory, StreamHandle } from "../drivers/shared/driver.js";
import type { MemoryPlace } from "../lowering/launch.js";
import type { LoweringContext } from "../lowering/context.js";
import { FLOAT_BYTES } from "../lowering/regions.js";
import { maxResultWords } from "../lowering/output-rows.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { HostRows } from "./host-rows.js";

/**
 * Initial room for block tables, bias lists and masks: full contexts and masks of this many sequences. A step buffer
 * that grows moves, which invalidates every captured graph.
 */
const FIRST_TAIL_SEQUENCES = 64;
const MIN_TAIL_BYTES = 64 << 10;
const MAX_TAIL_BYTES = 8 << 20;
const WORD_BYTES = 4;
/** Bytes of whole rows that are copied back at a time: a few rows of the largest vocabularies. */
const ROWS_BYTES = 4 << 20;

/** Pinned memory of one step at a time: its packed input, and its results. */
interface StepSide {
  staging: PinnedMemory;
  view: DataView;
  readonly results: StepResultMemory;
}

/** Pinned memory for the packed results of a step, also as 32-bit words. */
export interface StepResultMemory {
  readonly pinned: PinnedMemory;
  readonly words: Int32Array;
}

/** Device and pinned memory that the steps of one program share. */
export class StepMemory implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #context: LoweringContext;
  readonly #blocks: DeviceBlock[] = [];
  readonly #pinned: PinnedMemory[] = [];
  readonly #scratch: DeviceBlock;
  readonly #constants: DeviceBlock;
  #blas: DeviceBlock | undefined;
  #step: DeviceBlock;
  /** Of the step that is packed next, or was packed last. */
  #side: StepSide;
  /** Of the step before it; undefined until one is queued behind another. */
  #otherSide: StepSide | undefined;
  /** Whether there was no pinned memory for another one. */
  #hasOneSide = false;
  readonly rows: PinnedMemory;
  /** Rows of tables that stay in host memory; undefined if there are none. */
  readonly hostRows: HostRows | undefined;

  /** `cleared`: scratch memory begins with zeros, so that what a kernel does not write is not by chance right. */
  constructor(runtime: GpuRuntime, context: LoweringContext, stream: StreamHandle, { cleared = false } = {}) {
    this.#runtime = runtime;
    this.#context = context;
    const { regions, constants } = context;
    const sizes = stepMemorySizes(context);
    this.hostRows = regions.hostRows.length === 0 ? undefined : new HostRows(runtime, regions.hostRows);
    try {
      this.#scratch = this.#allocate("scratch memory", regions.sizeBytes);
      this.#constants = this.#allocate("constants", constants.byteLength);
      this.#step = this.#allocate("the step buffer", sizes.step);
      this.#side = this.#allocateSide(sizes.step);
      this.rows = this.#allocateHost(sizes.rows);
      if (cleared) runtime.device.fill(this.#scratch.address, 0, this.#scratch.sizeBytes, stream);
      this.#initialise(stream);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** Where the next step is packed; the copy of the last one that was packed there has finished. */
  get staging(): DataView {
    return this.#side.view;
  }

  /** Where its results arrive. */
  get results(): StepResultMemory {
    return this.#side.results;
  }

  /** The next step is packed while the last one runs: it gets other pinned memory. False if there is none, and it has to wait. */
  changeSides(): boolean {
    if (this.#otherSide === undefined && !this.#hasOneSide) this.#otherSide = this.#tryAllocateSide();
    if (this.#otherSide === undefined) return false;
    [this.#side, this.#otherSide] = [this.#otherSide, this.#side];
    return true;
  }

  /** Capacity of the step buffer. */
  get stepBytes(): number {
    return this.#step.sizeBytes;
  }

  /** Grows the step buffer if necessary; true if it moved. */
  makeRoom(stepBytes: number): boolean {
    if (this.holds(stepBytes)) return false;
    // Pinned memory first: if there is none, captured graphs still read the step buffer that they were captured with.
    for (const side of [this.#side, this.#otherSide]) {
      if (side === undefined || side.staging.bytes.byteLength >= stepBytes * 2) continue;
      const { staging } = side;
      side.staging = this.#allocateHost(stepBytes * 2);
      side.view = viewOf(side.staging);
      this.#pinned.splice(this.#pinned.indexOf(staging), 1);
      this.#runtime.device.freeHost(staging);
    }
    const oldStep = this.#step;
    this.#step = this.#allocate("the step buffer", stepBytes * 2);
    this.#blocks.splice(this.#blocks.indexOf(oldStep), 1);
    this.#runtime.memory.free(oldStep);
    return true;
  }

  /** Whether a step of this size fits without a larger step buffer. */
  holds(stepBytes: number): boolean {
    return stepBytes <= this.#step.sizeBytes && stepBytes <= this.#side.staging.bytes.byteLength;
  }

  /** Allocates the memory that only the BLAS library needs. */
  addBlas(): void {
    this.#blas ??= this.#allocate("memory for large matmuls", this.#context.regions.blas.sizeBytes);
  }

  copyStep(usedBytes: number, stream: StreamHandle): void {
    this.#runtime.device.copyToDevice(this.#step.address, this.#side.staging.address, usedBytes, stream);
    this.hostRows?.copy((place) => {
      if (place.space === "weight") throw new TypeError("rows are copied to scratch memory");
      return this.address(place);
    }, stream);
  }

  address(place: Exclude<MemoryPlace, { space: "weight" }>): DeviceAddress {
    return (this.#spaceOf(place.space).address + BigInt(place.byteOffset)) as DeviceAddress;
  }

  [Symbol.dispose](): void {
    this.#runtime.release(() => {
      this.hostRows?.[Symbol.dispose]();
      for (const block of this.#blocks.splice(0)) this.#runtime.memory.free(block);
      for (const memory of this.#pinned.splice(0)) this.#runtime.device.freeHost(memory);
    });
  }

  #spaceOf(space: "scratch" | "blas" | "step" | "constants"): DeviceBlock {
    switch (space) {
      case "scratch":
        return this.#scratch;
      case "step":
        return this.#step;
      case "constants":
        return this.#constants;
      case "blas":
        if (this.#blas === undefined) throw new TypeError("no memory was allocated for the BLAS library");
        return this.#blas;
      default:
        return space satisfies never;
    }
  }

  /** Copies constants, and clears the counters of GEMM blocks. */
  #initialise(stream: StreamHandle): void {
    const { device } = this.#runtime;
    const { constants, regions } = this.#context;
    if (constants.length > 0) {
      // Results are written here only after the stream has passed this copy.
      const { pinned } = this.results;
      pinned.bytes.set(new Uint8Array(constants.buffer));
      device.copyToDevice(this.#constants.address, pinned.address, constants.byteLength, stream);
    }
    if (regions.tileArrivalBytes > 0 && regions.tileArrivals.space !== "weight") {
      device.fill(this.address(regions.tileArrivals), 0, regions.tileArrivalBytes, stream);
    }
  }

  #allocate(what: string, sizeBytes: number): DeviceBlock {
    const block = this.#runtime.allocate(what, Math.max(1, sizeBytes));
    this.#blocks.push(block);
    return block;
  }

  #allocateHost(sizeBytes: number): PinnedMemory {
    const memory = this.#runtime.allocateHost(Math.max(1, sizeBytes));
    this.#pinned.push(memory);
    return memory;
  }

  #tryAllocateSide(): StepSide | undefined {
    const before = this.#pinned.length;
    try {
      return this.#allocateSide(this.#step.sizeBytes);
    } catch (error) {
      if (!(error instanceof GpuError) || error.code !== "GPU_OUT_OF_MEMORY") throw error;
      for (const memory of this.#pinned.splice(before)) this.#runtime.device.freeHost(memory);
      this.#hasOneSide = true;
      return undefined;
    }
  }

  #allocateSide(stepBytes: number): StepSide {
    const staging = this.#allocateHost(stepBytes);
    const pinned = this.#allocateHost(stepMemorySizes(this.#context).results);
    const { buffer, byteOffset, byteLength } = pinned.bytes;
    const words = new Int32Array(buffer, byteOffset, byteLength >> 2);
    return { staging, view: viewOf(staging), results: { pinned, words } };
  }
}

interface StepMemorySizes {
  /** Of the step buffer and its staging copy. */
  readonly step: number;
  readonly results: number;
  readonly rows: number;
}

/** Bytes of what `StepMemory` allocates besides scratch memory and constants. */
export function stepMemorySizes(context: LoweringContext): StepMemorySizes {
  const { limits, fused } = context.options;
  const { hidden, logits, values } = fused.program;
  const widestRow = Math.max(values[hidden].width, logits === undefined ? 0 : values[logits].width);
  return {
    step: context.step.usedBytes(0, 0) + firstTailBytes(context),
    results: Math.max(1, maxResultWords(limits.maxOutputs) * FLOAT_BYTES, context.constants.byteLength),
    rows: Math.max(ROWS_BYTES, widestRow * FLOAT_BYTES),
  };
}

function firstTailBytes({ options: { limits, fused } }: LoweringContext): number {
  const groups = Math.max(1, kvGroups(fused.program.kv).length);
  const tableWords = Math.ceil(limits.contextTokens / limits.blockTokens) * groups;
  const maskWords = Math.ceil(fused.program.vocabularySize / 32);
  const wanted = Math.min(FIRST_TAIL_SEQUENCES, limits.maxOutputs) * (tableWords + maskWords) * WORD_BYTES;
  return Math.min(MAX_TAIL_BYTES, Math.max(MIN_TAIL_BYTES, wanted));
}

function viewOf({ bytes }: PinnedMemory): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** An address inside pinned memory. */
export function hostAt({ address }: PinnedMemory, byteOffset: number): HostAddress {
  return (address + BigInt(byteOffset)) as HostAddress;
}
