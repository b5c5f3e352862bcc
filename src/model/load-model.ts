// Opens a model on the backend that its options name.

import type { KvCacheType } from "../backends/contract.js";
import { AUTO_BACKEND, startBackend } from "../backends/registry.js";
import { MAX_SEQUENCES, resolveServingOptions, type ServingOptions } from "../engine/serving-options.js";
import type { PullModelOptions, PullProgress } from "../hub/pull-types.js";
import type { LoadingProgress } from "../loader/loading-stats.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { definedOptions } from "../options.js";
import { refuseDraftMode } from "../engine/drafting.js";
import { DRAFT_MODES, type DraftMode } from "../speculation/speculation.js";
import { typedErrors } from "./typed-errors.js";
import {
  callback,
  checkOptions,
  count,
  flag,
  oneOf,
  type OptionChecks,
  optionalText,
  unchecked,
} from "./checked-options.js";
import { Model } from "./model.js";
import { resolveModel } from "./models.js";

/** A backend's name; "auto" chooses the best one that this machine can run. */
export type BackendName = "auto" | "hip" | "cuda" | "cpu" | "reference";

const KV_CACHE_TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** Options of `loadModel`. */
export interface LoadModelOptions {
  /** What computes the model; "auto", the default, chooses the best backend of this machine. */
  readonly backend?: BackendName;
  /**
   * Context length: maximum positions of prompt and generated text together; by default the model's own, but at most
   * 4,096.
   */
  readonly contextTokens?: number;
  /**
   * Maximum number of generations in a batch; more wait in a queue. 64 by default, fewer if the backend's steps hold
   * fewer.
   */
  readonly concurrency?: number;
  /** Type of the KV cache; by default the one that the backend prefers. */
  readonly kvCacheType?: KvCacheType;
  /** Attempts allocations that seem too large; if the driver refuses them, that is an error. */
  readonly ignoreMemoryCheck?: boolean;
  /** CPU threads; by default one per physical core. */
  readonly threads?: number;
  /** Name or number of the GPU. */
  readonly device?: string | number;
  /** Bit-exact results regardless of batching; slower prefill. */
  readonly deterministic?: boolean;
  /**
   * Speculative decoding, which changes the speed and not the text: "auto", the default, drafts from the text itself and
   * from what a grammar forces, whenever that pays; "ngram" names these drafts alone, "mtp" the model's draft head, which "auto" uses for models with recurrent layers.
   */
  readonly draft?: DraftMode;
  /** A smaller model of the same vocabulary that drafts, too: a path or a name, as for the model itself. */
  readonly draftModel?: string;
  /** The prompt of the first `generate` call: loading starts at once with what it needs, instead of at first use. */
  readonly firstPrompt?: string;
  /** Called after each tensor that reaches the device. */
  readonly onProgress?: (progress: LoadingProgress) => void;
  /** Downloads nothing: a model that is given by name has to be in the cache. `HF_HUB_OFFLINE=1` does the same. */
  readonly offline?: boolean;
  /** Called as a model that is given by name is downloaded. */
  readonly onPullProgress?: (progress: PullProgress) => void;
}

/** The checks of `loadModel`'s options. */
export const LOAD_MODEL_CHECKS: OptionChecks<LoadModelOptions> = {
  // The registry refuses an unknown name with the nearest one, and backends check what is theirs.
  backend: unchecked,
  contextTokens: count(1, MAX_CONTEXT_TOKENS),
  concurrency: count(1, MAX_SEQUENCES),
  kvCacheType: oneOf(KV_CACHE_TYPES),
  ignoreMemoryCheck: flag,
  threads: unchecked,
  device: unchecked,
  deterministic: flag,
  draft: oneOf(DRAFT_MODES),
  draftModel: optionalText,
  firstPrompt: optionalText,
  onProgress: callback,
  offline: flag,
  onPullProgress: callback,
};

/**
 * Opens a model lazily: reads the header and builds the plan; weights are loaded at first use. The model is a path, or a
 * name: `hf:user/repo[:quant]`, `hf:user/repo/file.gguf#branch`, the `https://` address of a GGUF, `ollama:name:tag`. A
 * named model that is not on this machine is downloaded first, if it fits the device.
 */
export async function loadModel(path: string, options: LoadModelOptions = {}): Promise<Model> {
  return await typedErrors("loadModel", () => openModel(path, options));
}

/** Further options for a model that a server opens. */
export interface ServedModelOptions {
  readonly name?: string;
  readonly serving?: ServingOptions;
}

/** Opens a model as `loadModel` does, with a server's name and serving options if given. */
export async function openModel(
  path: string,
  options: LoadModelOptions,
  served: ServedModelOptions = {},
): Promise<Model> {
  checkOptions("loadModel", options, LOAD_MODEL_CHECKS);
  if (served.serving !== undefined) resolveServingOptions(served.serving);
  const { backend: name = AUTO_BACKEND, threads, device, deterministic, ...rest } = options;
  const { offline: _offline, onPullProgress: _onPullProgress, draftModel, ...opening } = rest;
  if (draftModel !== undefined) refuseDraftMode("loadModel", options.draft, "unknown");
  const drafter = draftModel === undefined ? undefined : await resolveModel(draftModel, pullOptions(options));
  const file = await resolveModel(path, pullOptions(options));
  const backend = startBackend(name, {
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device }),
    ...(deterministic === undefined ? {} : { deterministic }),
  });
  return await Model.open(file.path, backend, {
    ...definedOptions(opening),
    ...(file.label === "" ? {} : { name: file.label }),
    ...(drafter === undefined ? {} : { draftModel: drafter.path }),
    ...served,
  });
}

/** The options that concern a download: where the model would run decides whether it is worth one. */
export function pullOptions(options: LoadModelOptions): PullModelOptions {
  const { backend, contextTokens, kvCacheType, ignoreMemoryCheck, threads, device, offline, onPullProgress } = options;
  return definedOptions({
    backend,
    contextTokens,
    kvCacheType,
    ignoreMemoryCheck,
    threads,
    device,
    offline,
    onProgress: onPullProgress,
  }) as PullModelOptions;
}
