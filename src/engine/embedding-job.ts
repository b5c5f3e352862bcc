// A text on its way to one vector: the mean of the last layer's states over all its tokens, brought to length 1. Whoever
// loses his place is computed from the first token again, so every token counts once whatever happens on the way.

import type { OutputRow } from "../backends/contract.js";
import { BackendError } from "../errors.js";
import { requireFinite } from "../plan/output-row.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import { deferred } from "./deferred.js";
import type { RowWant, SequenceHost, StepReader } from "./step-reader.js";

const HIDDEN: RowWant = { want: { kind: "hidden" } };

export class EmbeddingJob implements StepReader {
  readonly #host: SequenceHost;
  readonly #tokens: Int32Array;
  readonly #signal: AbortSignal | undefined;
  readonly #result = deferred<Float32Array>();
  readonly #abort = (): void => this.fail(this.#signal?.reason);
  #sequence: ScheduledSequence | undefined;
  #rows: Float32Array[] = [];
  #takenRows = 0;
  /** In double precision: thousands of states are added up. */
  #sums: Float64Array | undefined;
  #summedRows = 0;
  /** Of the sequence, when the first of these rows came. */
  #preemptions = 0;

  constructor(host: SequenceHost, tokens: Int32Array, signal: AbortSignal | undefined) {
    this.#host = host;
    this.#tokens = tokens;
    this.#signal = signal;
  }

  async run(): Promise<Float32Array> {
    this.#signal?.throwIfAborted();
    const options = {
      tokens: this.#tokens,
      capacityTokens: this.#tokens.length,
      priority: 0,
      slots: 1,
      everyRow: true,
    };
    this.#sequence = this.#host.submit(options, this);
    this.#signal?.addEventListener("abort", this.#abort, { once: true });
    try {
      return await this.#result.promise;
    } finally {
      this.#signal?.removeEventListener("abort", this.#abort);
    }
  }

  launched(): void {}

  wanted(): RowWant {
    return HIDDEN;
  }

  take(row: OutputRow): void {
    if (this.#sequence !== undefined && this.#sequence.preemptions !== this.#preemptions)
      this.#beginAgain(this.#sequence.preemptions);
    const finite = requireFinite(row);
    if (finite.kind !== "hidden")
      throw new BackendError("BACKEND_STEP", "[embed] the backend returned no hidden state");
    this.#rows.push(finite.values);
    this.#host.deliverLater(this);
    if (++this.#takenRows === this.#tokens.length) this.#release();
  }

  deliver(): void {
    for (const row of this.#rows) {
      this.#sums ??= new Float64Array(row.length);
      for (let column = 0; column < row.length; column++) this.#sums[column] += row[column];
    }
    this.#summedRows += this.#rows.length;
    this.#rows = [];
    if (this.#sums !== undefined && this.#summedRows === this.#tokens.length)
      this.#result.resolve(normalised(this.#sums));
  }

  fail(error: unknown): void {
    this.#result.reject(error);
    try {
      this.#release();
    } catch {
      // One failure is enough, and whoever waits has been told.
    }
  }

  #beginAgain(preemptions: number): void {
    this.#preemptions = preemptions;
    this.#rows = [];
    this.#takenRows = 0;
    this.#sums = undefined;
    this.#summedRows = 0;
  }

  #release(): void {
    if (this.#sequence !== undefined) this.#host.release(this.#sequence);
  }
}

/** The mean has the direction of the sum. */
function normalised(sums: Float64Array): Float32Array {
  let squares = 0;
  for (const value of sums) squares += value * value;
  const length = Math.sqrt(squares);
  return Float32Array.from(sums, (value) => (length > 0 ? value / length : 0));
}
