// Which copies of blocks a KV cache takes, and when: a copy has the cache to itself, steps share it, and all of them come
// in the order of asking, so that a step under way ends before what it wrote is copied or overwritten.

import { BackendError } from "../errors.js";

/** The pairs as a copy of the caller's own array, or BACKEND_STEP. */
export function checkedPairs(pairs: Int32Array, blocks: number): Int32Array {
  if (!(pairs instanceof Int32Array)) refuse("pairs", "an Int32Array", typeof pairs);
  const own = Int32Array.from(pairs);
  if (own.length % 2 !== 0) refuse("pairs", "an even number of blocks: from, to, from, to …", String(own.length));
  const targets = new Set<number>();
  for (const [index, block] of own.entries()) {
    if (block < 0 || block >= blocks) refuse(`pairs[${index}]`, `a block below ${blocks}`, String(block));
    if (index % 2 === 0) continue;
    if (targets.has(block)) refuse(`pairs[${index}]`, "blocks that are a target once", `${block} again`);
    targets.add(block);
  }
  for (let index = 0; index < own.length; index += 2) {
    if (targets.has(own[index])) refuse(`pairs[${index}]`, "a block that is no target", String(own[index]));
  }
  return own;
}

function refuse(field: string, expected: string, found: string): never {
  throw new BackendError("BACKEND_STEP", `[kv-cache] ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}

interface WaitingStep {
  readonly begin: () => void;
  readonly fail: (error: unknown) => void;
}
type Work = () => void;

/** The order of steps and copies over one cache. Where nothing is under way, nothing waits. */
export class CacheOrder {
  #steps = 0;
  /** In the order of asking; the first of them is work that waits for steps. */
  readonly #waiting: (WaitingStep | Work)[] = [];
  /** Of a copy that had to wait: whoever asked is gone, and the cache does not hold what later steps believe. */
  #failure: { readonly error: unknown } | undefined;

  /** Undefined where the step may begin at once. It leaves in any case, a refused one too. */
  enter(): Promise<void> | undefined {
    if (this.#waiting.length > 0) return new Promise((begin, fail) => this.#waiting.push({ begin, fail }));
    this.#steps++;
    return this.#failure === undefined ? undefined : Promise.reject(this.#failure.error);
  }

  leave(): void {
    this.#steps--;
    while (this.#waiting.length > 0 && this.#advance(this.#waiting[0])) this.#waiting.shift();
  }

  /** Throws what the copy throws, where it need not wait. */
  copy(work: Work): void {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#steps === 0) work();
    else this.#waiting.push(() => this.#copyLate(work));
  }

  /** At once or in its turn: for giving the cache's memory back. It does not throw. */
  alone(work: Work): void {
    if (this.#steps === 0) work();
    else this.#waiting.push(work);
  }

  /** False for work whose turn has not come. */
  #advance(first: WaitingStep | Work): boolean {
    if (typeof first === "function") {
      if (this.#steps > 0) return false;
      first();
      return true;
    }
    this.#steps++;
    if (this.#failure === undefined) first.begin();
    else first.fail(this.#failure.error);
    return true;
  }

  #copyLate(work: Work): void {
    if (this.#failure !== undefined) return;
    try {
      work();
    } catch (error) {
      this.#failure = { error };
    }
  }
}
