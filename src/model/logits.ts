// The logits of a given text, row after row.

import type { BackendMemory } from "../backends/contract.js";
import type { RowSink } from "../engine/row-job.js";
import { BackendError } from "../errors.js";
import type { FiniteRow } from "../plan/output-row.js";

/** Collects rows of logits in one array, which is allocated before anything is computed. */
export class LogitsSink implements RowSink<Float32Array> {
  readonly want = { want: { kind: "logits" } } as const;
  readonly #logits: Float32Array;
  #filled = 0;

  /** Throws BACKEND_MEMORY if there is not enough memory for the rows. */
  constructor(tokens: number, vocabularySize: number, memory: BackendMemory) {
    this.#logits = allocateLogits(tokens, vocabularySize, memory);
  }

  add(row: FiniteRow): void {
    if (row.kind !== "logits") throw new BackendError("BACKEND_STEP", "[logits] the backend returned no logits");
    this.#logits.set(row.logits, this.#filled);
    this.#filled += row.logits.length;
  }

  reset(): void {
    this.#filled = 0;
  }

  finish(): Float32Array {
    return this.#logits;
  }
}

function allocateLogits(tokens: number, vocabularySize: number, { availableBytes }: BackendMemory): Float32Array {
  const neededBytes = tokens * vocabularySize * Float32Array.BYTES_PER_ELEMENT;
  try {
    if (neededBytes <= availableBytes) return new Float32Array(tokens * vocabularySize);
  } catch {
    // A limit of the JavaScript engine is reported like one of the machine's memory.
  }
  throw new BackendError(
    "BACKEND_MEMORY",
    `[logits] ${tokens} × ${vocabularySize} logits need ${neededBytes} bytes and ${availableBytes} are free; pass fewer tokens at once`,
    { details: { tokens, vocabularySize, neededBytes, availableBytes } },
  );
}
