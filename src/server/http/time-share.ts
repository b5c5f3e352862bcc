// The main thread's time for work that grows with what clients send: done in turns of a few milliseconds, one piece of
// work after the other, and while others wait for the thread no more than a part of its time. Invariant: what is short
// is done at once where nothing waits, so that a small request pays nothing.

import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

/** Yields wherever it may be interrupted, at least every millisecond or so. */
export type Divisible<Result> = Generator<void, Result, undefined>;

const TURN_MS = 3;
/** While others wait: so many times as long as a turn took, nothing of this is done. */
const REST = 4;
/** Of a turn, however long it took: the machine may have been busy with something else meanwhile. */
const LONGEST_TURN_MS = 20;
/** However much was done at once. */
const LONGEST_REST_MS = 1000;
/** Shorter work is not accounted for. */
const NEGLIGIBLE_MS = 0.5;

interface Job {
  /** Does a turn's worth; true when it is done. */
  turn(): boolean;
}

export class TimeShare {
  readonly #isShared: () => boolean;
  readonly #jobs: Job[] = [];
  #isDriving = false;
  #restUntilMs = 0;

  /** `isShared`: whether other requests are being answered. */
  constructor(isShared: () => boolean) {
    this.#isShared = isShared;
  }

  /** Whether short work may be done at once. */
  get isFree(): boolean {
    return this.#jobs.length === 0 && performance.now() >= this.#restUntilMs;
  }

  /** Short work that cannot be divided, done at once. */
  doNow<Result>(work: () => Result): Result {
    const startMs = performance.now();
    try {
      return work();
    } finally {
      this.charge(Math.min(performance.now() - startMs, LONGEST_TURN_MS));
    }
  }

  /** What something took that has been done already, such as receiving a body. */
  charge(spentMs: number): void {
    if (spentMs < NEGLIGIBLE_MS || !this.#isShared()) return;
    const nowMs = performance.now();
    this.#restUntilMs = Math.min(Math.max(this.#restUntilMs, nowMs) + spentMs * REST, nowMs + LONGEST_REST_MS);
  }

  /** Rejects with the signal's reason where that is given before it is done. */
  run<Result>(work: Divisible<Result>, signal?: AbortSignal): Promise<Result> {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const turn = (): boolean => {
        const endMs = performance.now() + TURN_MS;
        try {
          do {
            const { done, value } = work.next();
            if (done === true) {
              resolve(value);
              return true;
            }
          } while (performance.now() < endMs);
          return false;
        } catch (error) {
          reject(error);
          return true;
        }
      };
      if (this.isFree && this.doNow(turn)) return;
      const job: Job = { turn };
      this.#jobs.push(job);
      signal?.addEventListener("abort", () => this.#drop(job, () => reject(signal.reason as Error)), { once: true });
      void this.#drive();
    });
  }

  #drop(job: Job, tell: () => void): void {
    const place = this.#jobs.indexOf(job);
    if (place === -1) return;
    this.#jobs.splice(place, 1);
    tell();
  }

  /** One turn each, round about: a long piece of work does not hold up a shorter one. */
  async #drive(): Promise<void> {
    if (this.#isDriving) return;
    this.#isDriving = true;
    for (;;) {
      const restMs = this.#restUntilMs - performance.now();
      await (restMs > 0 ? pause(restMs) : nextTurn());
      const job = this.#jobs.shift();
      if (job === undefined) break;
      if (!this.doNow(() => job.turn())) this.#jobs.push(job);
    }
    this.#isDriving = false;
  }
}
