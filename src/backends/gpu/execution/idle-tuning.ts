// Tunes a program while its device is idle: some seconds after the last step, one measurement at a time, each only if no
// step has run for a moment. A step that arrives waits for the measurement in progress, which takes some milliseconds.

import type { TuneReport } from "../../tuning.js";
import type { TuningPace } from "./program-tuner.js";
import { TuningClock } from "../../tuning-clock.js";

/** A device that has run no step for this long is not being warmed up or used. */
const FIRST_IDLE_MS = 3000;
/** Between two measurements steps come first: those of a generation follow one another faster than this. */
const IDLE_MS = 100;
/** Time that is spent in a process, waiting not included; the rest is left to the next one. */
const BUDGET_MS = 180_000;
/** Compilers take processor cores from whatever else runs there. */
const GENTLE: Omit<TuningPace, "skipped"> = { searches: 1, compilations: 2 };

/** What idle tuning needs of its program. */
export interface IdleTuningHost {
  /** Milliseconds since the last step on the device ended; 0 while one runs. */
  idleMs(): number;
  /** Whether another program of the device is being tuned. */
  isOtherTuned(): boolean;
  /** Tunes with this pace; `turn` is awaited before each measurement. */
  tune(pace: Omit<TuningPace, "skipped">, clock: TuningClock, turn: () => Promise<void>): Promise<TuneReport>;
}

/** The background tuning of one program. */
export class IdleTuning implements Disposable {
  readonly #host: IdleTuningHost;
  readonly #ending = new AbortController();
  #timer: NodeJS.Timeout | undefined;

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
    this.#timer?.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#ending.abort();
  }

  #begin(): void {
    if (this.#host.idleMs() < FIRST_IDLE_MS || this.#host.isOtherTuned()) return this.start();
    this.#timer = undefined;
    const clock = new TuningClock(BUDGET_MS, this.#ending.signal);
    // A failure is reported by the step that meets it.
    void this.#host.tune(GENTLE, clock, () => clock.waitFor(this.#quiet())).catch(() => {});
  }

  /** Resolves when no step has run for a moment. */
  async #quiet(): Promise<void> {
    const { signal } = this.#ending;
    const leftMs = (): number => IDLE_MS - this.#host.idleMs();
    do {
      // At least one timer that does not keep the process alive: a program with nothing else to do ends here.
      await new Promise<void>((resolve) => void setTimeout(resolve, Math.max(1, leftMs())).unref());
    } while (!signal.aborted && leftMs() > 0);
  }
}
