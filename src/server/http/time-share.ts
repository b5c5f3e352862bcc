// The main thread's time for work that grows with what clients send: done in turns of a few milliseconds, one job after
// the other, and for no more than a part of the time while other requests wait. Invariant: short work is done at once
// if nothing waits, so a small request pays nothing.

import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

/** Work that yields wherever it may be interrupted, at least every millisecond or so. */
export type Divisible<Result> = Generator<void, Result, undefined>;

const TURN_MS = 3;
/** While other requests wait, jobs rest for this many times the duration of a turn. */
const REST = 4;
/** A turn never counts as longer: the machine may have been busy with something else. */
const LONGEST_TURN_MS = 20;
/** The longest rest, however much work was done at once. */
const LONGEST_REST_MS = 1000;
/** Shorter work is not accounted for. */
const NEGLIGIBLE_MS = 0.5;

interface Job {
  /** Works for one turn; true when the job is done. */
  turn(): boolean;
}

/** Divides the main thread's time between jobs and other requests. */
export class TimeShare {
  readonly #isShared: () => boolean;
  readonly #jobs: Job[] = [];
  #isDriving = false;
  #restUntilMs = 0;

  /** `isShared` returns whether other requests are in flight. */
  constructor(isShared: () => boolean) {
    this.#isShared = isShared;
  }

  /** Whether short work may be done at once. */
  get isFree(): boolean {
    return this.#jobs.length === 0 && performance.now() >= this.#restUntilMs;
  }

  /** Does short work that cannot be divided at once. */
  doNow<Result>(work: () => Result): Result {
    const startMs = performance.now();
    try {
      return work();
    } finally {
      this.charge(Math.min(performance.now() - startMs, LONGEST_TURN_MS));
    }
  }

  /** Accounts for the time of work that has been done already, such as receiving a body. */
  charge(spentMs: number): void {
    if (spentMs < NEGLIGIBLE_MS || !this.#isShared()) return;
    const nowMs = performance.now();
    this.#restUntilMs = Math.min(Math.max(this.#restUntilMs, nowMs) + spentMs * REST, nowMs + LONGEST_REST_MS);
  }

  /** Does work in turns; rejects with the signal's reason if it is aborted before the end. */
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

  /** One turn for each job in rotation: a long job does not hold up a shorter one. */
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
