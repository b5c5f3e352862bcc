// Results of a step: the packed results in one copy, and whole rows (hidden states, full logits) in as many copies as
// pinned memory requires.

import type { OutputRow } from "../../contract.js";
import type { DeviceAddress, StreamHandle } from "../drivers/shared/driver.js";
import type { LoweringContext } from "../lowering/context.js";
import { FLOAT_BYTES } from "../lowering/regions.js";
import { type OutputPlan, unpackOutputs, type WholeRow } from "../lowering/output-rows.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { hostAt, type StepMemory, type StepResultMemory } from "./step-memory.js";

/** Copies a step's results to the host and turns them into output rows. */
export class StepResults {
  readonly #runtime: GpuRuntime;
  readonly #context: LoweringContext;
  readonly #memory: StepMemory;
  readonly #target: StepResultMemory;
  readonly #outputs: OutputPlan;

  constructor(runtime: GpuRuntime, context: LoweringContext, memory: StepMemory, outputs: OutputPlan) {
    this.#runtime = runtime;
    this.#context = context;
    this.#memory = memory;
    this.#target = memory.results;
    this.#outputs = outputs;
  }

  /** Queues the copies that belong to the step itself. */
  queue(stream: StreamHandle): void {
    const { resultWords } = this.#outputs;
    const { results } = this.#context.regions;
    if (resultWords > 0 && results.space !== "weight") {
      this.#runtime.device.copyToHost(
        this.#target.pinned.address,
        this.#memory.address(results),
        resultWords * FLOAT_BYTES,
        stream,
      );
    }
    if (this.#outputs.wholeRows.length > 0) this.#queueRows(0, stream);
  }

  /** Reads the results after the step has finished. `whenDone` waits for one more round of copies. */
  read(stream: StreamHandle, whenDone: () => Promise<void>): readonly OutputRow[] | Promise<readonly OutputRow[]> {
    return this.#outputs.wholeRows.length === 0 ? this.#unpack([]) : this.#readRows(stream, whenDone);
  }

  async #readRows(stream: StreamHandle, whenDone: () => Promise<void>): Promise<readonly OutputRow[]> {
    const rows: Float32Array[] = [];
    const { wholeRows } = this.#outputs;
    while (rows.length < wholeRows.length) {
      const arrived = this.#queuedRows(rows.length);
      const places = this.#rowPlaces(rows.length, arrived);
      // If more rows follow, the memory is reused; the last ones are not copied.
      const more = rows.length + arrived < wholeRows.length;
      for (const { byteOffset, width } of places)
        rows.push(more ? this.#rowAt(byteOffset, width).slice() : this.#rowAt(byteOffset, width));
      if (!more) break;
      this.#queueRows(rows.length, stream);
      await whenDone();
    }
    return this.#unpack(rows);
  }

  #unpack(rows: readonly Float32Array[]): readonly OutputRow[] {
    return unpackOutputs(this.#outputs, this.#target.words, (index) => rows[index]);
  }

  #queueRows(first: number, stream: StreamHandle): void {
    const places = this.#rowPlaces(first, this.#queuedRows(first));
    for (const [index, { byteOffset, width }] of places.entries()) {
      this.#runtime.device.copyToHost(
        hostAt(this.#memory.rows, byteOffset),
        this.#source(this.#outputs.wholeRows[first + index]),
        width * FLOAT_BYTES,
        stream,
      );
    }
  }

  /** Number of rows from `first` on that fit into one copy. */
  #queuedRows(first: number): number {
    const { wholeRows } = this.#outputs;
    let [count, bytes] = [0, 0];
    while (first + count < wholeRows.length) {
      bytes += this.#widthOf(wholeRows[first + count]) * FLOAT_BYTES;
      if (bytes > this.#memory.rows.bytes.byteLength) break;
      count++;
    }
    return count;
  }

  #rowPlaces(first: number, count: number): readonly { readonly byteOffset: number; readonly width: number }[] {
    let byteOffset = 0;
    return this.#outputs.wholeRows.slice(first, first + count).map((row) => {
      const place = { byteOffset, width: this.#widthOf(row) };
      byteOffset += place.width * FLOAT_BYTES;
      return place;
    });
  }

  #rowAt(byteOffset: number, width: number): Float32Array {
    const { bytes } = this.#memory.rows;
    return new Float32Array(bytes.buffer, bytes.byteOffset + byteOffset, width);
  }

  #matrixOf({ value }: WholeRow): ReturnType<LoweringContext["matrix"]> {
    const { hidden, logits } = this.#context.options.fused.program;
    return this.#context.matrix(value === "hidden" ? hidden : (logits ?? hidden));
  }

  #widthOf(row: WholeRow): number {
    return this.#matrixOf(row).width;
  }

  #source(row: WholeRow): DeviceAddress {
    const { place, stride } = this.#matrixOf(row);
    if (place.space === "weight") throw new TypeError("a value is in scratch memory");
    return (this.#memory.address(place) + BigInt(row.row * stride * FLOAT_BYTES)) as DeviceAddress;
  }
}
