// How long the parts of a load took, for benchmarks: from the start of the driver until the device could be used, from
// the first kernel asked for to the last one that the first step needed, from the first upload to the last arrival, and
// the first step itself. The parts overlap.

import type { BackendLoadTimings } from "../../../contract.js";

class Span {
  #startMs: number | undefined;
  #endMs: number | undefined;

  begin(startMs = performance.now()): void {
    this.#startMs ??= startMs;
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

  /** Counted from the start of the process. */
  get startMs(): number {
    return this.#startMs ?? 0;
  }

  get milliseconds(): number {
    return this.#startMs === undefined || this.#endMs === undefined ? 0 : this.#endMs - this.#startMs;
  }
}

export class LoadMarks {
  readonly driver = new Span();
  readonly kernels = new Span();
  readonly weights = new Span();
  readonly firstStep = new Span();

  /** Undefined before the first step has ended. */
  timings(): BackendLoadTimings | undefined {
    if (!this.firstStep.ended) return undefined;
    return {
      driverStartMs: this.driver.startMs,
      driverMs: this.driver.milliseconds,
      kernelsStartMs: this.kernels.startMs,
      kernelsMs: this.kernels.milliseconds,
      weightsStartMs: this.weights.startMs,
      weightsMs: this.weights.milliseconds,
      firstStepStartMs: this.firstStep.startMs,
      firstStepMs: this.firstStep.milliseconds,
    };
  }
}
