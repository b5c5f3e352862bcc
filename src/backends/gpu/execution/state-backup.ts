// Copies of the state slots that a step overwrites where it reads them. A step whose BLAS matmuls turn out to be wrong, or
// fail, is repeated without the BLAS library, and must begin with the states that it began with. Steps of a shape that has
// been right once are not copied again.

import { GpuError } from "../../../errors.js";
import type { StepInput } from "../../contract.js";
import type { DeviceAddress, StreamHandle } from "../drivers/shared/driver.js";
import type { LoweringContext } from "../lowering/context.js";
import type { DeviceBlock } from "../memory/device-memory.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { stateSlotLayout } from "../memory/state-layout.js";

/** Maximum number of shapes that are remembered; prompts have many lengths. */
const MAX_SHAPES = 8192;

interface Saved {
  readonly key: string;
  readonly block: DeviceBlock | undefined;
  readonly slots: readonly number[];
  readonly states: bigint;
}

/** Keeps what a step needs to be repeated. */
export class StateBackup {
  readonly #runtime: GpuRuntime;
  readonly #slotBytes: number;
  readonly #trusted = new Set<string>();
  #saved: Saved | undefined;

  constructor(runtime: GpuRuntime, { options }: LoweringContext) {
    this.#runtime = runtime;
    this.#slotBytes = stateSlotLayout(options.fused.program.kv.states).slotBytes;
  }

  /**
   * Copies the slots that a step of this shape overwrites, unless such steps have been right before. False if there is no
   * memory for the copies.
   */
  save(key: string, step: StepInput, states: bigint | undefined, stream: StreamHandle): boolean {
    this.#release();
    if (states === undefined || this.#trusted.has(key)) return true;
    const slots = overwrittenSlots(step);
    const block = this.#allocate(slots.length * this.#slotBytes);
    if (block === "none") return false;
    this.#saved = { key, block, slots, states };
    this.#copy(this.#saved, "from the slots", stream);
    return true;
  }

  /** Puts the slots back as they were. */
  restore(stream: StreamHandle): void {
    if (this.#saved !== undefined) this.#copy(this.#saved, "to the slots", stream);
  }

  /** After a step that was right; its launches have ended. */
  confirm(): void {
    if (this.#saved === undefined) return;
    if (this.#trusted.size > MAX_SHAPES) this.#trusted.clear();
    this.#trusted.add(this.#saved.key);
    this.#release();
  }

  /** Within `release` of the runtime. */
  [Symbol.dispose](): void {
    this.#release();
  }

  #copy({ block, slots, states }: Saved, direction: "from the slots" | "to the slots", stream: StreamHandle): void {
    if (block === undefined) return;
    for (const [index, slot] of slots.entries()) {
      const place = (states + BigInt(slot * this.#slotBytes)) as DeviceAddress;
      const kept = (block.address + BigInt(index * this.#slotBytes)) as DeviceAddress;
      const [target, source] = direction === "to the slots" ? [place, kept] : [kept, place];
      this.#runtime.device.copyOnDevice(target, source, this.#slotBytes, stream);
    }
  }

  #allocate(sizeBytes: number): DeviceBlock | undefined | "none" {
    if (sizeBytes === 0) return undefined;
    try {
      return this.#runtime.memory.allocate(sizeBytes);
    } catch (error) {
      if (error instanceof GpuError && error.code === "GPU_OUT_OF_MEMORY") return "none";
      throw error;
    }
  }

  #release(): void {
    const block = this.#saved?.block;
    this.#saved = undefined;
    if (block !== undefined) this.#runtime.memory.free(block);
  }
}

/** The slots that a step writes and reads. */
function overwrittenSlots({ stateReads, stateWrites }: StepInput): readonly number[] {
  const written = new Set(stateWrites);
  return [...(stateReads ?? [])].filter((slot) => slot >= 0 && written.has(slot));
}
