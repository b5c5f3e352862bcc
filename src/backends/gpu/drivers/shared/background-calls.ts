// Blocking calls, run on threads of Node's pool. The pool also reads files, so only some of its threads may wait for
// events; and its threads are not bound to a device at first, which some calls need.

import { CONTEXT_IS_DESTROYED, INVALID_CONTEXT } from "./gpu-error.js";

/** Of the four threads that the pool has by default; the others continue to read files. */
const MAX_WAITING = 2;
/**
 * Twice the pool's default number of threads: by then a thread that is bound to the device has run the call, unless the
 * pool is larger.
 */
const MAX_BINDINGS = 8;

let waiting = 0;
const queue: (() => void)[] = [];

/** Number of threads that wait for an event, and callbacks for when the last of them returns. */
interface Watch {
  threads: number;
  readonly ended: (() => void)[];
}

/** Runs a device's blocking calls on threads of Node's pool and binds those threads to the device as needed. */
export class BackgroundCalls {
  readonly #bindThread: () => Promise<number>;
  readonly #watches = new Map<bigint, Watch>();

  /** `bindThread` binds one free thread of the pool to the device. */
  constructor(bindThread: () => Promise<number>) {
    this.#bindThread = bindThread;
  }

  /**
   * Runs a call on the pool. A thread that is not bound to the device returns an error and is then bound; `otherwise`
   * runs if that does not help.
   */
  async run(call: () => Promise<number>, otherwise: () => number | Promise<number>): Promise<number> {
    for (let tries = 0; tries < MAX_BINDINGS; tries++) {
      const number = await call();
      if (!isUnknown(number)) return number;
      await this.#bindThread();
    }
    return await otherwise();
  }

  /**
   * Waits for an event on a thread of the pool, first come, first served. Every step waits this way, so it takes few
   * turns of the event loop.
   */
  async wait(event: bigint, call: () => Promise<number>, otherwise: () => number | Promise<number>): Promise<number> {
    const watch = this.#watch(event);
    try {
      if (waiting >= MAX_WAITING) await new Promise<void>((resolve) => queue.push(resolve));
      else waiting++;
      try {
        const number = await call();
        if (!isUnknown(number)) return number;
        await this.#bindThread();
        return await this.run(call, otherwise);
      } finally {
        // Hands the slot to the next in the queue, or frees it.
        const next = queue.shift();
        if (next === undefined) waiting--;
        else next();
      }
    } finally {
      if (--watch.threads === 0) this.#end(event, watch);
    }
  }

  isWaitedFor(event: bigint): boolean {
    return this.#watches.has(event);
  }

  /** Calls `ended` when no thread waits for the event any more; immediately if none does. */
  afterWaits(event: bigint, ended: () => void): void {
    const watch = this.#watches.get(event);
    if (watch === undefined) ended();
    else watch.ended.push(ended);
  }

  #watch(event: bigint): Watch {
    const known = this.#watches.get(event);
    if (known !== undefined) {
      known.threads++;
      return known;
    }
    const watch = { threads: 1, ended: [] };
    this.#watches.set(event, watch);
    return watch;
  }

  #end(event: bigint, { ended }: Watch): void {
    this.#watches.delete(event);
    for (const then of ended) then();
  }
}

function isUnknown(number: number): boolean {
  return number === INVALID_CONTEXT || number === CONTEXT_IS_DESTROYED;
}
