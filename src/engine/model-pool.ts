// The models of a server by name: loaded on demand, unloaded after idle time, or for another model when memory is
// short, the least recently used first and never one in use. Invariants: one load or unload at a time; all requests for
// a model share one load and its failure; a use is counted before the model can be unloaded.

import { ServingError } from "../errors.js";
import { didYouMean } from "../nearest.js";
import { optionalCount, refuseUnknownKeys, refuseValue } from "../options.js";
import { unlessAborted } from "../worker/unless-aborted.js";
import { MAX_DELAY_MS } from "./completion-request.js";
import { allInUse, isOutOfMemory } from "./model-pool-errors.js";
import type { PlanResidency } from "../plan/residency.js";
import { createSlot, type ModelSlot, stateOf, stopIdleTimer } from "./model-slot.js";
import type { EngineStatistics, ModelEngine, ModelLease, ModelListing, ModelPool } from "./serving.js";

/** What the pool holds: a model with its engine. */
export interface PooledModel extends AsyncDisposable {
  readonly engine: ModelEngine;
  /** Whether nothing can be computed any more; only loading the model again helps. */
  readonly isLost: boolean;
}

/** A model file with the name that requests use. */
export interface ModelEntry {
  readonly name: string;
  readonly path: string;
}

/** Options of a model pool. */
export interface ModelPoolOptions {
  readonly models: readonly ModelEntry[];
  /**
   * Opens a model and prepares it for serving; the caller chooses the backend. It calls `onStart` with the engine before
   * weights are loaded, so that their arrival can be watched.
   */
  readonly load: (entry: ModelEntry, onStart: (engine: ModelEngine) => void) => Promise<PooledModel>;
  /** Unloads a model that was not used for this long; by default none is unloaded. */
  readonly idleTimeoutMs?: number;
  /** Maximum number of loaded models; by default as many as fit. */
  readonly maxLoaded?: number;
  /** How long a load may wait for models in use to become idle when memory is short. */
  readonly swapTimeoutMs?: number;
  /** Called with each unloaded model, so that caches for it can be freed. */
  readonly onUnload?: (model: ModelEngine) => void;
}

const OPTION_NAMES = [
  "models",
  "load",
  "idleTimeoutMs",
  "maxLoaded",
  "swapTimeoutMs",
  "onUnload",
] as const satisfies readonly (keyof ModelPoolOptions)[];
const DEFAULT_SWAP_TIMEOUT_MS = 60_000;
const MAX_MODELS = 10_000;
/** The shortest time between two attempts to recover a failed model without a request for it. */
const RECOVERY_MS = 5000;

/** Creates a pool; no model is loaded until one is acquired. */
export function createModelPool(options: ModelPoolOptions): ModelPool {
  return new LoadedModels(options);
}

class LoadedModels implements ModelPool {
  readonly #load: ModelPoolOptions["load"];
  readonly #idleTimeoutMs: number | undefined;
  readonly #maxLoaded: number;
  readonly #swapTimeoutMs: number;
  readonly #onUnload: (model: ModelEngine) => void;
  readonly #slots = new Map<string, ModelSlot>();
  /** Called whenever a use has ended. */
  readonly #leaveListeners = new Set<() => void>();
  /** The loads and unloads so far, one after the other. */
  #work: Promise<unknown> = Promise.resolve();
  /** The slot that waits for others to become idle; new requests for those wait until the swap has ended. */
  #swap: { readonly slot: ModelSlot; readonly ended: Promise<unknown> } | undefined;
  #isStopping = false;
  #closing: Promise<void> | undefined;

  constructor(options: ModelPoolOptions) {
    refuseUnknownKeys("models", options, OPTION_NAMES);
    this.#load = options.load;
    this.#idleTimeoutMs = optionalCount("models", "idleTimeoutMs", options.idleTimeoutMs, 1, MAX_DELAY_MS);
    this.#maxLoaded = optionalCount("models", "maxLoaded", options.maxLoaded, 1, MAX_MODELS) ?? MAX_MODELS;
    this.#swapTimeoutMs =
      optionalCount("models", "swapTimeoutMs", options.swapTimeoutMs, 0, MAX_DELAY_MS) ?? DEFAULT_SWAP_TIMEOUT_MS;
    this.#onUnload = options.onUnload ?? (() => {});
    for (const entry of options.models) {
      if (entry.name === "" || this.#slots.has(entry.name))
        refuseValue("models", "models", "names that are not empty and differ", entry.name);
      this.#slots.set(entry.name, createSlot(entry));
    }
  }

  list(): readonly ModelListing[] {
    return Array.from(this.#slots.values(), (slot) => ({
      ...slot.entry,
      created: slot.created,
      state: stateOf(slot),
      contextTokens: slot.model?.engine.contextTokens,
      backend: slot.model?.engine.backend,
      unloadAtMs: slot.unloadAtMs,
    }));
  }

  recover(): void {
    for (const slot of this.#slots.values()) {
      if (
        this.#isStopping ||
        stateOf(slot) !== "failed" ||
        performance.now() - (slot.failedMs ?? -Infinity) < RECOVERY_MS
      )
        continue;
      // A request for the model reports why it fails.
      this.#modelOf(slot).catch(() => {});
    }
  }

  async acquire(name: string, signal?: AbortSignal): Promise<ModelLease> {
    const slot = this.#slotOf(name);
    this.#refuseWhenStopping();
    // Models to be unloaded would never become idle if new requests kept arriving. These wait, but for one swap only.
    const untilMs = performance.now() + this.#swapTimeoutMs;
    while (this.#swap !== undefined && this.#swap.slot !== slot && performance.now() < untilMs)
      await unlessAborted(this.#swap.ended, signal);
    this.#refuseWhenStopping();
    slot.uses++;
    stopIdleTimer(slot);
    const loading = this.#modelOf(slot);
    let isLeased = true;
    const release = (): void => {
      if (isLeased) this.#leave(slot);
      isLeased = false;
    };
    try {
      return { model: await unlessAborted(loading, signal), [Symbol.dispose]: release };
    } catch (error) {
      // A load that no request waits for any more ends before the model may be unloaded.
      void loading.catch(() => {}).finally(release);
      throw error;
    }
  }

  async with<Result>(name: string, use: (model: ModelEngine) => Promise<Result>): Promise<Result> {
    using lease = await this.acquire(name);
    return await use(lease.model);
  }

  statistics(): ReadonlyMap<string, EngineStatistics> {
    const statistics = new Map<string, EngineStatistics>();
    for (const [name, { model }] of this.#slots)
      if (model !== undefined) statistics.set(name, model.engine.statistics());
    return statistics;
  }

  residency(name: string): PlanResidency | undefined {
    const { starting, model } = this.#slots.get(name) ?? {};
    return (starting ?? (model?.isLost === true ? undefined : model?.engine))?.residency;
  }

  async drain(timeoutMs: number): Promise<void> {
    this.#stop();
    await this.#waitUntil(() => [...this.#slots.values()].every(({ uses }) => uses === 0), timeoutMs);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stop();
    await this.#inTurn(async () => {
      const failures: unknown[] = [];
      for (const slot of this.#slots.values()) await this.#unload(slot).catch((error: unknown) => failures.push(error));
      // Thrown after everything else has been freed.
      if (failures.length > 0) throw failures[0];
    });
  }

  /** Makes a load that waits for memory fail. */
  #stop(): void {
    this.#isStopping = true;
    for (const listener of this.#leaveListeners) listener();
  }

  #slotOf(name: string): ModelSlot {
    const slot = this.#slots.get(name);
    if (slot !== undefined) return slot;
    const known = [...this.#slots.keys()];
    const guess = didYouMean(name, known);
    throw new ServingError(
      "SERVING_MODEL_UNKNOWN",
      `[models] no model "${name.slice(0, 200)}" is served${guess === "" ? "" : `;${guess}`}`,
      { details: { model: name, known } },
    );
  }

  #refuseWhenStopping(): void {
    if (this.#isStopping)
      throw new ServingError("SERVING_STOPPING", "[models] the server is shutting down and accepts no new requests");
  }

  async #modelOf(slot: ModelSlot): Promise<ModelEngine> {
    if (slot.model !== undefined && !slot.model.isLost) return slot.model.engine;
    slot.loading ??= this.#inTurn(() => this.#loadSlot(slot)).finally(() => (slot.loading = undefined));
    return (await slot.loading).engine;
  }

  /** Unloads a lost model first. Makes room until the model fits, or until no other can be unloaded. */
  async #loadSlot(slot: ModelSlot): Promise<PooledModel> {
    if (slot.model !== undefined) await this.#unload(slot);
    while (this.#loaded().length >= this.#maxLoaded)
      if (!(await this.#makeRoom(slot))) throw allInUse(slot.entry.name, this.#maxLoaded);
    for (;;) {
      try {
        slot.model = await this.#load(slot.entry, (engine) => (slot.starting = engine));
        slot.failedMs = undefined;
        return slot.model;
      } catch (error) {
        if (isOutOfMemory(error) && (await this.#makeRoom(slot))) continue;
        // A lack of memory is not the model's fault.
        if (!isOutOfMemory(error)) slot.failedMs = performance.now();
        throw error;
      } finally {
        slot.starting = undefined;
      }
    }
  }

  /** Unloads the least recently used idle model, and waits for one if all are in use. */
  async #makeRoom(slot: ModelSlot): Promise<boolean> {
    if (this.#loaded().length === 0) return false;
    const left = this.#waitUntil(() => this.#idle().length > 0 || this.#isStopping, this.#swapTimeoutMs);
    this.#swap = { slot, ended: left };
    await left;
    const [victim] = this.#idle().sort((one, other) => one.usedMs - other.usedMs);
    const unloaded = victim === undefined ? undefined : this.#unload(victim);
    this.#swap = undefined;
    await unloaded;
    return victim !== undefined;
  }

  #loaded(): ModelSlot[] {
    return [...this.#slots.values()].filter(({ model }) => model !== undefined);
  }

  #idle(): ModelSlot[] {
    return this.#loaded().filter(({ uses }) => uses === 0);
  }

  #leave(slot: ModelSlot): void {
    slot.uses--;
    slot.usedMs = performance.now();
    for (const listener of this.#leaveListeners) listener();
    if (slot.uses > 0 || this.#idleTimeoutMs === undefined) return;
    slot.unloadAtMs = Date.now() + this.#idleTimeoutMs;
    slot.idleTimer = setTimeout(() => {
      // Nothing waits for this; the next load reports memory that cannot be freed.
      this.#inTurn(async () => (slot.uses === 0 ? await this.#unload(slot) : undefined)).catch(() => {});
    }, this.#idleTimeoutMs);
    slot.idleTimer.unref();
  }

  async #unload(slot: ModelSlot): Promise<void> {
    const { model } = slot;
    slot.model = undefined;
    stopIdleTimer(slot);
    if (model === undefined) return;
    try {
      this.#onUnload(model.engine);
    } finally {
      await model[Symbol.asyncDispose]();
    }
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#work.then(work, work);
    this.#work = turn;
    return turn;
  }

  async #waitUntil(isSo: () => boolean, timeoutMs: number): Promise<void> {
    if (isSo()) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#leaveListeners.delete(listener);
        resolve();
      };
      const listener = (): void => (isSo() ? end() : undefined);
      const timer = setTimeout(end, timeoutMs);
      this.#leaveListeners.add(listener);
    });
  }
}
