// Calls that block, on threads of Node's pool. That pool also reads files, so only some of its threads may wait for events;
// and its threads know no device at first, which some calls need.

import { CONTEXT_IS_DESTROYED, INVALID_CONTEXT } from "./gpu-error.js";

/** Of the four that the pool has unless told otherwise: the others go on reading. */
const MAX_WAITING = 2;
/** Twice the threads of the pool: by then one that knows the device has had its turn, unless the pool is larger. */
const MAX_BINDINGS = 8;

let waiting = 0;
const queue: (() => void)[] = [];

/** Threads that look at an event, and what is to be done when none does any more. */
interface Watch {
  threads: number;
  readonly ended: (() => void)[];
}

export class BackgroundCalls {
  readonly #bindThread: () => Promise<number>;
  readonly #watches = new Map<bigint, Watch>();

  /** `bindThread` makes the device known to one thread of the pool, whichever is free. */
  constructor(bindThread: () => Promise<number>) {
    this.#bindThread = bindThread;
  }

  /** A thread that does not know the device says so, and is told; `otherwise` is the way for when that does not help. */
  async run(call: () => Promise<number>, otherwise: () => number | Promise<number>): Promise<number> {
    for (let tries = 0; tries < MAX_BINDINGS; tries++) {
      const number = await call();
      if (!isUnknown(number)) return number;
      await this.#bindThread();
    }
    return await otherwise();
  }

  /** The wait for an event, when its turn has come. On the way of every step: its end is few turns of the loop away. */
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
        // The turn goes to the next in the queue, or back.
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

  /** Calls back when no thread looks at the event any more, at once where none does. */
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
