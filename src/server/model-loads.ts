// Models on their way to the shelf. What opens a file may take as long as a driver or a disk likes and hears no signal:
// whoever stops the server waits for none that no request waits for. Invariant: a model that nobody waits for any more is
// given back as soon as it is there.

import { setTimeout as pause } from "node:timers/promises";
import type { ShelfEntry } from "../engine/model-pool.js";
import { unlessAborted } from "../worker/unless-aborted.js";

export class Loads<Loaded extends AsyncDisposable> {
  readonly #load: (entry: ShelfEntry, signal: AbortSignal) => Promise<Loaded>;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  /** `load` ends as soon as it can when its signal says so. */
  constructor(load: (entry: ShelfEntry, signal: AbortSignal) => Promise<Loaded>) {
    this.#load = load;
  }

  async begin(entry: ShelfEntry): Promise<Loaded> {
    const { signal } = this.#ending;
    signal.throwIfAborted();
    const loading = this.#load(entry, signal);
    const settled = this.#settled(loading);
    this.#underWay.add(settled);
    void settled.then(() => this.#underWay.delete(settled));
    return await unlessAborted(loading, signal);
  }

  /** Nobody wants them any more: whoever waits for one is refused with the reason. */
  abort(reason: Error): void {
    this.#ending.abort(reason);
  }

  /** Until the last of them is given back, for at most so long. */
  async settle(timeoutMs: number): Promise<void> {
    if (this.#underWay.size === 0) return;
    const waiting = new AbortController();
    const timeout = pause(timeoutMs, undefined, { signal: waiting.signal }).catch(() => {});
    await Promise.race([Promise.all(this.#underWay), timeout]);
    waiting.abort();
  }

  /** Its failure is told to whoever waits for it, and else to nobody. */
  async #settled(loading: Promise<Loaded>): Promise<void> {
    try {
      const loaded = await loading;
      if (this.#ending.signal.aborted) await loaded[Symbol.asyncDispose]();
    } catch {}
  }
}
