// One model of a pool: its file, whether it is loaded, and since when it is idle.

import { statSync } from "node:fs";
import { FileError } from "../errors.js";
import type { ModelEntry, PooledModel } from "./model-pool.js";
import type { ModelEngine, ModelListing } from "./serving.js";

/** A model of a pool, loaded or not. */
export interface ModelSlot {
  readonly entry: ModelEntry;
  readonly created: number;
  uses: number;
  usedMs: number;
  /** The running or queued load. */
  loading: Promise<PooledModel> | undefined;
  /** The engine whose weights are being loaded. */
  starting: ModelEngine | undefined;
  model: PooledModel | undefined;
  /** When its last load failed; undefined if it did not. */
  failedMs: number | undefined;
  idleTimer: NodeJS.Timeout | undefined;
  /** When the timer will unload it, in Unix milliseconds. */
  unloadAtMs: number | undefined;
}

/** A slot whose model is not loaded yet; refuses a file that is not there. */
export function createSlot(entry: ModelEntry): ModelSlot {
  return {
    entry,
    created: changedSeconds(entry.path),
    uses: 0,
    usedMs: 0,
    loading: undefined,
    starting: undefined,
    model: undefined,
    failedMs: undefined,
    idleTimer: undefined,
    unloadAtMs: undefined,
  };
}

/** Keeps a model from being unloaded by its timer. */
export function stopIdleTimer(slot: ModelSlot): void {
  clearTimeout(slot.idleTimer);
  slot.unloadAtMs = undefined;
}

/** The state as a list of models shows it. */
export function stateOf({ model, loading, failedMs }: ModelSlot): ModelListing["state"] {
  if (loading !== undefined) return "loading";
  if (model !== undefined) return model.isLost ? "failed" : "loaded";
  return failedMs === undefined ? "unloaded" : "failed";
}

function changedSeconds(path: string): number {
  try {
    return Math.floor(statSync(path).mtimeMs / 1000);
  } catch (error) {
    throw new FileError("FILE_NOT_FOUND", `[models] ${path}: expected a model file, found none that can be read`, {
      details: { path },
      cause: error,
    });
  }
}
