// How long the parts of a load took, for benchmarks: from the first kernel asked for to the last one that the first step
// needed, from the first upload to the last arrival, and the first step itself. The parts overlap.

import type { BackendLoadTimings } from "../contract.js";

class Span {
  #startMs: number | undefined;
  #endMs: number | undefined;

  begin(): void {
    this.#startMs ??= performance.now();
  }

  /** The first end counts. */
  end(): void {
    this.#endMs ??= performance.now();
  }

  /** So far; there may be more. */
  goOn(): void {
    this.#endMs = performance.now();
  }

  get ended(): boolean {
    return this.#endMs !== undefined;
  }

  get milliseconds(): number {
    return this.#startMs === undefined || this.#endMs === undefined ? 0 : this.#endMs - this.#startMs;
  }
}

export class LoadMarks {
  readonly kernels = new Span();
  readonly weights = new Span();
  readonly firstStep = new Span();

  /** Undefined before the first step has ended. */
  timings(): BackendLoadTimings | undefined {
    if (!this.firstStep.ended) return undefined;
    return { kernelsMs: this.kernels.milliseconds, weightsMs: this.weights.milliseconds, firstStepMs: this.firstStep.milliseconds };
  }
}
