// Tunes a program while it is idle: some seconds after its last step, one measurement at a time, each only if no step has
// run for a moment. A step that arrives waits for the measurement in progress, which takes some milliseconds.

import type { TuneReport } from "../../tuning.js";
import type { TuningPace } from "./program-tuner.js";
import { TuningClock } from "../../tuning-clock.js";

/** A program that has run no step for this long is not being warmed up or used. */
const FIRST_IDLE_MS = 3000;
/** Between two measurements steps come first: those of a generation follow one another faster than this. */
const IDLE_MS = 100;
/** Time that is spent in a process, waiting not included; the rest is left to the next one. */
const BUDGET_MS = 180_000;
/** Compilers take processor cores from whatever else runs there. */
const GENTLE: Omit<TuningPace, "skipped"> = { searches: 1, compilations: 2 };

/** What idle tuning needs of its program. */
export interface IdleTuningHost {
  /** Whether no step runs or waits. */
  isIdle(): boolean;
  /** Tunes with this pace; `turn` is awaited before each measurement. */
  tune(pace: Omit<TuningPace, "skipped">, clock: TuningClock, turn: () => Promise<void>): Promise<TuneReport>;
}

/** The background tuning of one program. */
export class IdleTuning implements Disposable {
  readonly #host: IdleTuningHost;
  readonly #ending = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #lastStepMs = performance.now();

  constructor(host: IdleTuningHost) {
    this.#host = host;
  }

  /** Call after the first step. */
  start(): void {
    if (this.#ending.signal.aborted) return;
    this.#timer = setTimeout(() => this.#begin(), FIRST_IDLE_MS).unref();
  }

  /** The program is not idle yet. */
  stepEnded(): void {
    this.#lastStepMs = performance.now();
    this.#timer?.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#ending.abort();
  }

  #begin(): void {
    if (!this.#host.isIdle()) return this.stepEnded();
    this.#timer = undefined;
    const clock = new TuningClock(BUDGET_MS, this.#ending.signal);
    // A failure is reported by the step that meets it.
    void this.#host.tune(GENTLE, clock, () => clock.waitFor(this.#quiet())).catch(() => {});
  }

  /** Resolves when no step has run for a moment. */
  async #quiet(): Promise<void> {
    const { signal } = this.#ending;
    const leftMs = (): number => (this.#host.isIdle() ? this.#lastStepMs + IDLE_MS - performance.now() : IDLE_MS);
    do {
      // At least one timer that does not keep the process alive: a program with nothing else to do ends here.
      await new Promise<void>((resolve) => void setTimeout(resolve, Math.max(1, leftMs())).unref());
    } while (!signal.aborted && leftMs() > 0);
  }
}
