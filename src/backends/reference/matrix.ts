// Rows of f32 in scratch memory: a value of the program as the kernels see it. Views of columns are matrices too, with
// the stride of the value that contains them.

import type { StepSize } from "../../graph/memory-plan.js";
import type { ValueId } from "../../graph/operation.js";
import type { Program } from "../../graph/program.js";

/** Rows of f32 with a stride. */
export interface Matrix {
  readonly data: Float32Array;
  /** Index of the first row's first column. */
  readonly offset: number;
  /** Elements from one row to the next. */
  readonly stride: number;
  readonly rows: number;
  readonly width: number;
}

/** Soft-cap × tanh(x / soft-cap), or x itself if there is no soft-cap. */
export function softCapped(x: number, softCap: number | undefined): number {
  return softCap === undefined ? x : softCap * Math.tanh(x / softCap);
}

/** Scratch memory of one step at a time; grows to the largest step and is reused. */
export class Arena {
  readonly #program: Program;
  readonly #slots: Float32Array[] = [];
  #size: StepSize = { tokens: 0, outputs: 0, scored: 0 };

  constructor(program: Program) {
    this.#program = program;
  }

  resize(size: StepSize): void {
    this.#size = size;
    for (const [index, slot] of this.#program.memory.slots.entries()) {
      const needed = slot.width * size[slot.rows];
      if ((this.#slots[index]?.length ?? 0) < needed) this.#slots[index] = new Float32Array(needed);
    }
  }

  matrix(id: ValueId): Matrix {
    const { values, memory } = this.#program;
    const value = values[id];
    const root = value.base === undefined ? value : values[value.base];
    // Sizes from a file are doubles to the compiler, and loops over doubles take twice as long: hence the small integers.
    return {
      data: this.#slots[memory.slotOf[id]],
      offset: value.columnOffset | 0,
      stride: root.width | 0,
      rows: this.#size[value.rows] | 0,
      width: value.width | 0,
    };
  }
}
