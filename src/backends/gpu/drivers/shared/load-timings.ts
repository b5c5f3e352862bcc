// How long the parts of a load took, for benchmarks: from the start of the driver until the device is usable, from the
// first requested kernel to the last that the first step needs, from the first upload to the last arrival, and the
// first step. The parts overlap.

import type { BackendLoadTimings } from "../../../contract.js";

class Span {
  #startMs: number | undefined;
  #endMs: number | undefined;

  begin(startMs = performance.now()): void {
    this.#startMs ??= startMs;
  }

  /** Later calls are ignored. */
  end(): void {
    this.#endMs ??= performance.now();
  }

  /** Ends the span for now; it may be extended. */
  goOn(): void {
    this.#endMs = performance.now();
  }

  get ended(): boolean {
    return this.#endMs !== undefined;
  }

  /** Milliseconds since the start of the process. */
  get startMs(): number {
    return this.#startMs ?? 0;
  }

  get milliseconds(): number {
    return this.#startMs === undefined || this.#endMs === undefined ? 0 : this.#endMs - this.#startMs;
  }
}

/** Time spans of one load. */
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
