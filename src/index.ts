// The library's door: open a model or a tokenizer, and the types a caller meets on the way.
// The reference keeps Node's types in reach of a caller whose project does not name them.
/// <reference types="node" preserve="true" />

import { basename } from "node:path";
import { requireLanguageModel } from "./architectures/file-kind.js";
import type { KvCacheType } from "./backends/contract.js";
import { AUTO_BACKEND, startBackend } from "./backends/registry.js";
import { Model } from "./engine/model.js";
import { createServedModel, type OwnedServedModel } from "./engine/served-model.js";
import type { ServingOptions } from "./engine/serving-options.js";
import type { WarmUpProgress } from "./engine/warm-up.js";
import { withPath } from "./error-path.js";
import { GgufError } from "./errors.js";
import { GgufFile } from "./gguf/file.js";
import type { LoadingProgress } from "./loader/loading-stats.js";
import { optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue } from "./options.js";
import { explainedByBundle } from "./package-files.js";
import { isPlainObject } from "./plain-object.js";
import type { RunningServer, ServerSettings } from "./server/launch.js";
import { typedError } from "./system-failure.js";
import { createTokenizer, hasTokenizer, type Tokenizer } from "./tokenizer/tokenizer.js";

export interface LoadModelOptions {
  /** `auto` takes the best this machine has. */
  readonly backend?: string;
  readonly contextTokens?: number;
  /** How keys and values are kept; by default as the backend likes it best. */
  readonly kvCacheType?: KvCacheType;
  /** Tries allocations that the plan takes for too large; what the driver then refuses is an error. */
  readonly ignoreMemoryCheck?: boolean;
  readonly threads?: number;
  readonly device?: string | number;
  /** The same tokens give the same results to the bit, whatever else runs in the same step; slower with prompts. */
  readonly deterministic?: boolean;
  /** The text that `generate` will be given right away: what it takes is loaded at once, and not with the first use. */
  readonly firstPrompt?: string;
  /** Called after each tensor that reaches the device. */
  readonly onProgress?: (progress: LoadingProgress) => void;
}

const LOAD_MODEL_OPTION_NAMES = [
  "backend",
  "contextTokens",
  "kvCacheType",
  "ignoreMemoryCheck",
  "threads",
  "device",
  "deterministic",
  "firstPrompt",
  "onProgress",
];

/** Opens a model lazily: the header is read and the plan built, weights follow with the first use. */
export async function loadModel(path: string, options: LoadModelOptions = {}): Promise<Model> {
  return await typed("loadModel", () => openModel(path, options));
}

async function openModel(path: string, options: LoadModelOptions): Promise<Model> {
  refuseUnknownKeys("loadModel", options, LOAD_MODEL_OPTION_NAMES);
  const {
    backend: name = AUTO_BACKEND,
    threads,
    device,
    deterministic,
    contextTokens,
    kvCacheType,
    ignoreMemoryCheck,
    firstPrompt,
    onProgress,
  } = options;
  if (firstPrompt !== undefined && typeof firstPrompt !== "string")
    refuseValue("loadModel", "firstPrompt", "text", firstPrompt);
  const backend = startBackend(name, {
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device }),
    ...(deterministic === undefined ? {} : { deterministic }),
  });
  return await Model.open(path, backend, {
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(kvCacheType === undefined ? {} : { kvCacheType }),
    ...(ignoreMemoryCheck === undefined ? {} : { ignoreMemoryCheck }),
    ...(firstPrompt === undefined ? {} : { firstPrompt }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
}

export interface ServeModelOptions extends LoadModelOptions {
  readonly serving?: ServingOptions;
}

/** A model that completes many prompts at once, without a server before it. */
export async function serveModel(path: string, options: ServeModelOptions = {}): Promise<OwnedServedModel> {
  return await typed("serveModel", async () => {
    refuseUnknownKeys("serveModel", options, [...LOAD_MODEL_OPTION_NAMES, "serving"]);
    const { serving = {}, ...opening } = options;
    const model = await openModel(path, opening);
    return await createServedModel(basename(path, ".gguf"), model, serving);
  });
}

export interface ServeOptions extends ServerSettings {
  /** By the names that requests use. The first is loaded at once, the others when somebody asks for them. */
  readonly models: readonly { readonly name: string; readonly path: string }[];
  /** How each of them is opened. */
  readonly model?: LoadModelOptions;
  /** How each of them serves many requests at once. */
  readonly serving?: ServingOptions;
  /** A model that nobody used for so long is unloaded; by default none is. */
  readonly idleTimeoutMs?: number;
  /**
   * Prepares kernels, library plans and graphs for batches and prompts of all sizes once a model is loaded, so that no
   * request stops for them; true by default. Requests that come before the end of it are served, and go first.
   */
  readonly warmUp?: boolean;
  /** Called as the first model's warm-up goes on. */
  readonly onWarmUp?: (progress: WarmUpProgress) => void;
  /** Ends the start, which then fails with its reason; a server that runs is ended by `stop`. */
  readonly signal?: AbortSignal;
}

/** Models behind an OpenAI-compatible server; it listens and the first is loaded when this resolves. `ready` says when it is warmed up. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  return await typed("serve", async () => {
    if (typeof options !== "object" || options === null)
      refuseValue("serve", "options", "an object with `models`", options);
    const { models, model = {}, serving = {}, idleTimeoutMs, signal, warmUp, onWarmUp, ...server } = options;
    requireModels(models);
    refuseUnknownKeys("serve.model", model, LOAD_MODEL_OPTION_NAMES);
    optionalSignal("serve", "signal", signal);
    const warmsUp = optionalFlag("serve", "warmUp", warmUp) ?? true;
    if (onWarmUp !== undefined && typeof onWarmUp !== "function")
      refuseValue("serve", "onWarmUp", "a function", onWarmUp);
    const { launch } = await serverCode();
    return await launch({
      models,
      openModel: (path) => loadModel(path, model),
      serving,
      idleTimeoutMs,
      warmUp: warmsUp,
      onWarmUp,
      server,
      signal,
    });
  });
}

/** Whoever wants a model and no server waits for none of its code. In a bundle its packages may not even load. */
async function serverCode(): Promise<typeof import("./server/launch.js")> {
  try {
    return await import("./server/launch.js");
  } catch (error) {
    throw explainedByBundle("serve", error);
  }
}

function requireModels(models: unknown): void {
  const expected = 'a list such as [{ name: "m", path: "model.gguf" }]';
  if (!Array.isArray(models) || models.length === 0)
    refuseValue("serve", "models", expected, Array.isArray(models) ? "an empty one" : models);
  for (const [index, model] of (models as readonly unknown[]).entries()) {
    const where = `models[${index}]`;
    if (!isPlainObject(model)) refuseValue("serve", where, "an object with name and path", model);
    refuseUnknownKeys(`serve.${where}`, model, ["name", "path"]);
    for (const key of ["name", "path"])
      if (typeof model[key] !== "string" || model[key] === "")
        refuseValue("serve", `${where}.${key}`, "text", model[key]);
  }
}

/** A tokenizer alone, also from a file that has a vocabulary and no tensors. */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  return await typed("loadTokenizer", async () => {
    using file = await GgufFile.open(path, { mapping: "off" });
    try {
      return tokenizerOf(file);
    } catch (error) {
      throw withPath(path, error);
    }
  });
}

function tokenizerOf({ metadata }: GgufFile): Tokenizer {
  if (hasTokenizer(metadata)) return createTokenizer(metadata);
  requireLanguageModel(metadata);
  throw new GgufError("GGUF_TOKENIZER", {
    field: "tokenizer.ggml.tokens",
    expected: "a vocabulary",
    found: "no such key",
  });
}

/** Whatever goes wrong behind a door comes out as one of our errors, also if the operating system refused something. */
async function typed<Result>(door: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw typedError(door, error);
  }
}

export type * from "./backends/contract.js";
export type * from "./engine/serving.js";
export type { OwnedServedModel } from "./engine/served-model.js";
export type { WarmUpOptions, WarmUpProgress } from "./engine/warm-up.js";
export type { ServingOptions } from "./engine/serving-options.js";
export type { RunningServer, ServerSettings } from "./server/launch.js";
export { type OpenedPlan, openPlan } from "./engine/open-plan.js";
export { backendNames, type BackendReport, createBackend, detectBackends } from "./backends/registry.js";
export { type GenerateOptions, type LoadTimings, Model, type PerplexityOptions } from "./engine/model.js";
export type {
  Generation,
  GenerationPiece,
  GenerationSummary,
  GenerationTimings,
  StopReason,
} from "./engine/generation.js";
export type { PerplexityProgress } from "./engine/perplexity.js";
export * from "./errors.js";
export { embeddedModelPath } from "./package-files.js";
export { GgufFile, type GgufTensor } from "./gguf/file.js";
export type { HyperParameters } from "./architectures/descriptor.js";
export type { Program } from "./graph/program.js";
export type { DeviceTensor } from "./tensor/device-tensor.js";
export type { LazyTensor, LazyTensorState } from "./tensor/lazy-tensor.js";
export { GgufLoader, type GgufLoaderOptions } from "./loader/gguf-loader.js";
export type { LoadingProgress, LoadingStats } from "./loader/loading-stats.js";
export { ExecutionPlan, type PlanMemory } from "./plan/execution-plan.js";
export type { LayerPlan, LayerProblem } from "./plan/layer-plan.js";
export type { PlanConfig } from "./plan/plan-config.js";
export type { SamplerOptions } from "./sampler/options.js";
export type { EncodeOptions, SegmentsOptions, StreamDecoder, TextSegment, Tokenizer } from "./tokenizer/tokenizer.js";
