// A text that the engine computes for its output rows: hidden states to embed it, logits to score it. Invariant: a text
// that is preempted is computed again from its first token, and each row still counts once.

import type { OutputRow } from "../backends/contract.js";
import { type FiniteRow, requireFinite } from "../plan/output-row.js";
import type { ScheduledSequence } from "../scheduler/scheduled-sequence.js";
import { onAbort } from "./abort-listeners.js";
import { deferred } from "./deferred.js";
import type { RowWant, SequenceHost, StepReader } from "./step-reader.js";

/** Consumes the rows of one text in order and produces a result. */
export interface RowSink<Result> {
  readonly want: RowWant;
  /** Called while the next step runs. */
  add(row: FiniteRow): void;
  /** Discards all rows: they will arrive again. */
  reset(): void;
  /** Called once, after the last row. */
  finish(): Result;
}

/** A text and the rows requested from it. */
export interface RowJobOptions {
  readonly tokens: Int32Array;
  /** Index of the first token whose row is requested. */
  readonly firstOutput: number;
  readonly signal: AbortSignal | undefined;
}

/** Computes one text and passes its rows to a sink. */
export class RowJob<Result> implements StepReader {
  readonly #host: SequenceHost;
  readonly #options: RowJobOptions;
  readonly #sink: RowSink<Result>;
  readonly #result = deferred<Result>();
  #sequence: ScheduledSequence | undefined;
  #rows: FiniteRow[] = [];
  #takenRows = 0;
  #addedRows = 0;
  /** Preemptions of the sequence when the first of these rows arrived. */
  #preemptions = 0;

  constructor(host: SequenceHost, options: RowJobOptions, sink: RowSink<Result>) {
    this.#host = host;
    this.#options = options;
    this.#sink = sink;
  }

  /** Rejects with the signal's reason if it is aborted. */
  async run(): Promise<Result> {
    const { tokens, firstOutput, signal } = this.#options;
    signal?.throwIfAborted();
    const options = { tokens, capacityTokens: tokens.length, priority: 0, slots: 1, firstOutput };
    this.#sequence = this.#host.submit(options, this);
    const forget = signal === undefined ? undefined : onAbort(signal, () => this.fail(signal.reason));
    try {
      return await this.#result.promise;
    } finally {
      forget?.();
    }
  }

  launched(): void {}

  wanted(): RowWant {
    return this.#sink.want;
  }

  take(row: OutputRow): void {
    if (this.#sequence !== undefined && this.#sequence.preemptions !== this.#preemptions)
      this.#beginAgain(this.#sequence.preemptions);
    this.#rows.push(requireFinite(row));
    this.#host.deliverLater(this);
    if (++this.#takenRows === this.#wantedRows) this.#release();
  }

  deliver(): void {
    const rows = this.#rows;
    this.#rows = [];
    for (const row of rows) this.#sink.add(row);
    this.#addedRows += rows.length;
    if (this.#addedRows === this.#wantedRows) this.#result.resolve(this.#sink.finish());
  }

  fail(error: unknown): void {
    this.#result.reject(error);
    try {
      this.#release();
    } catch {
      // The first failure has been reported; a second one adds nothing.
    }
  }

  get #wantedRows(): number {
    const { tokens, firstOutput } = this.#options;
    return tokens.length - firstOutput;
  }

  #beginAgain(preemptions: number): void {
    this.#preemptions = preemptions;
    this.#rows = [];
    this.#takenRows = 0;
    this.#addedRows = 0;
    this.#sink.reset();
  }

  #release(): void {
    if (this.#sequence !== undefined) this.#host.release(this.#sequence);
  }
}
