// The library's door: open a model or a tokenizer, and the types a caller meets on the way.
// The reference keeps Node's types in reach of a caller whose project does not name them.
/// <reference types="node" preserve="true" />

import { basename } from "node:path";
import type { KvCacheType } from "./backends/contract.js";
import { AUTO_BACKEND, startBackend } from "./backends/registry.js";
import { Model } from "./engine/model.js";
import { createServedModel, type OwnedServedModel } from "./engine/served-model.js";
import type { ServingOptions } from "./engine/serving-options.js";
import { GgufError } from "./errors.js";
import { GgufFile } from "./gguf/file.js";
import type { LoadingProgress } from "./loader/loading-stats.js";
import { optionalSignal, refuseUnknownKeys, refuseValue } from "./options.js";
import type { RunningServer, ServerSettings } from "./server/launch.js";
import { createTokenizer, hasTokenizer, type Tokenizer } from "./tokenizer/tokenizer.js";

export interface LoadModelOptions {
  /** `auto` takes the best this machine has. */
  readonly backend?: string;
  readonly contextTokens?: number;
  /** How keys and values are kept; by default as the backend likes it best. */
  readonly kvCacheType?: KvCacheType;
  readonly threads?: number;
  readonly device?: string | number;
  /** The same tokens give the same results to the bit, whatever else runs in the same step; slower with prompts. */
  readonly deterministic?: boolean;
  /** The text that `generate` will be given right away: what it takes is loaded at once, and not with the first use. */
  readonly firstPrompt?: string;
  /** Called after each tensor that reaches the device. */
  readonly onProgress?: (progress: LoadingProgress) => void;
}

const LOAD_MODEL_OPTION_NAMES = ["backend", "contextTokens", "kvCacheType", "threads", "device", "deterministic", "firstPrompt", "onProgress"];

/** Opens a model lazily: the header is read and the plan built, weights follow with the first use. */
export async function loadModel(path: string, options: LoadModelOptions = {}): Promise<Model> {
  refuseUnknownKeys("loadModel", options, LOAD_MODEL_OPTION_NAMES);
  const { backend: name = AUTO_BACKEND, threads, device, deterministic, contextTokens, kvCacheType, firstPrompt, onProgress } = options;
  if (firstPrompt !== undefined && typeof firstPrompt !== "string") refuseValue("loadModel", "firstPrompt", "text", firstPrompt);
  const backend = startBackend(name, {
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device }),
    ...(deterministic === undefined ? {} : { deterministic }),
  });
  return await Model.open(path, backend, {
    ...(contextTokens === undefined ? {} : { contextTokens }),
    ...(kvCacheType === undefined ? {} : { kvCacheType }),
    ...(firstPrompt === undefined ? {} : { firstPrompt }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
}

export interface ServeModelOptions extends LoadModelOptions {
  readonly serving?: ServingOptions;
}

/** A model that completes many prompts at once, without a server before it. */
export async function serveModel(path: string, { serving = {}, ...options }: ServeModelOptions = {}): Promise<OwnedServedModel> {
  const model = await loadModel(path, options);
  return await createServedModel(basename(path, ".gguf"), model, serving);
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
  /** Ends the start, which then fails with its reason; a server that runs is ended by `stop`. */
  readonly signal?: AbortSignal;
}

/** Models behind an OpenAI-compatible server; it listens when this resolves. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  const { models, model = {}, serving = {}, idleTimeoutMs, signal, ...server } = options;
  optionalSignal("serve", "signal", signal);
  // Whoever wants a model and no server waits for none of its code.
  const { launch } = await import("./server/launch.js");
  return await launch({ models, openModel: (path) => loadModel(path, model), serving, idleTimeoutMs, server, signal });
}

/** A tokenizer alone, also from a file that has a vocabulary and no tensors. */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  using file = await GgufFile.open(path, { mapping: "off" });
  if (!hasTokenizer(file.metadata)) {
    throw new GgufError("GGUF_TOKENIZER", {
      field: "tokenizer.ggml.tokens",
      expected: "a vocabulary",
      found: "no such key",
    });
  }
  return createTokenizer(file.metadata);
}

export type * from "./backends/contract.js";
export type * from "./engine/serving.js";
export type { OwnedServedModel } from "./engine/served-model.js";
export type { ServingOptions } from "./engine/serving-options.js";
export type { RunningServer, ServerSettings } from "./server/launch.js";
export { type OpenedPlan, openPlan } from "./engine/open-plan.js";
export { backendNames, type BackendReport, createBackend, surveyBackends } from "./backends/registry.js";
export { type GenerateOptions, type LoadTimings, Model, type PerplexityOptions } from "./engine/model.js";
export type { Generation, GenerationPiece, GenerationSummary, GenerationTimings, StopReason } from "./engine/generation.js";
export type { PerplexityProgress } from "./engine/perplexity.js";
export * from "./errors.js";
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
