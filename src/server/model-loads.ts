// Model loads in progress. Opening a file may take as long as a driver or a disk does, and cannot be aborted, so
// stopping the server does not wait for a load that no request waits for. Invariant: a model that is no longer wanted
// is disposed as soon as it is loaded.

import { setTimeout as pause } from "node:timers/promises";
import type { ModelEntry } from "../engine/model-pool.js";
import type { ModelEngine } from "../engine/serving.js";
import { unlessAborted } from "../worker/unless-aborted.js";

/** Opens a model; calls `onStart` before its weights are loaded, and ends as soon as it can when its signal is aborted. */
type Load<Loaded> = (entry: ModelEntry, signal: AbortSignal, onStart: (engine: ModelEngine) => void) => Promise<Loaded>;

/** Model loads in progress, which can be aborted together. */
export class Loads<Loaded extends AsyncDisposable> {
  readonly #load: Load<Loaded>;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  constructor(load: Load<Loaded>) {
    this.#load = load;
  }

  async begin(entry: ModelEntry, onStart: (engine: ModelEngine) => void = () => {}): Promise<Loaded> {
    const { signal } = this.#ending;
    signal.throwIfAborted();
    const loading = this.#load(entry, signal, onStart);
    const settled = this.#settled(loading);
    this.#underWay.add(settled);
    void settled.then(() => this.#underWay.delete(settled));
    return await unlessAborted(loading, signal);
  }

  /** Rejects all loads in progress with the reason. */
  abort(reason: Error): void {
    this.#ending.abort(reason);
  }

  /** Waits until all aborted loads have ended and their models are disposed, for at most `timeoutMs`. */
  async settle(timeoutMs: number): Promise<void> {
    if (this.#underWay.size === 0) return;
    const waiting = new AbortController();
    const timeout = pause(timeoutMs, undefined, { signal: waiting.signal }).catch(() => {});
    await Promise.race([Promise.all(this.#underWay), timeout]);
    waiting.abort();
  }

  /** Resolves when a load has ended, and disposes its model if loads were aborted; never rejects. */
  async #settled(loading: Promise<Loaded>): Promise<void> {
    try {
      const loaded = await loading;
      if (this.#ending.signal.aborted) await loaded[Symbol.asyncDispose]();
    } catch {}
  }
}
