// From a path to a plan, with every check of the file that needs no tensor.

import { requireLanguageModel } from "../architectures/file-kind.js";
import type { Backend, KvCacheType } from "../backends/contract.js";
import { withPath } from "../error-path.js";
import { GgufError, ModelError } from "../errors.js";
import { GgufLoader } from "../loader/gguf-loader.js";
import type { LoadingProgress } from "../loader/loading-stats.js";
import { optionalCount } from "../options.js";
import { ExecutionPlan } from "../plan/execution-plan.js";
import { MAX_CONTEXT_TOKENS } from "../plan/plan-config.js";
import { checkTokenizerMetadata } from "../tokenizer/tokenizer.js";
import { withHeadBeside } from "./draft-head-file.js";

/** Options for opening a model file. */
export interface ModelOptions {
  /** Context length; by default the model's own, but at most 4,096. */
  readonly contextTokens?: number;
  /** Type of the KV cache; by default the one that the backend prefers. */
  readonly kvCacheType?: KvCacheType;
  /** Attempts allocations that seem too large; if the driver refuses them, that is an error. */
  readonly ignoreMemoryCheck?: boolean;
  /** Whether the plan can run the model's draft head, false by default; "auto" if the model has one and it pays. */
  readonly draftHead?: boolean | "auto";
  /** The file of a draft head; by default the model's own, or one beside it. */
  readonly draftHeadPath?: string;
  readonly onProgress?: (progress: LoadingProgress) => void;
}

/** A model file with its plan. */
export interface OpenedPlan {
  /** Disposing it disposes the plan first. */
  readonly loader: GgufLoader;
  readonly plan: ExecutionPlan;
  /** Milliseconds since the start of the process. */
  readonly planStartMs: number;
  /** How long building the plan took, once file and backend were ready. */
  readonly planMs: number;
}

/** Work on the file while the backend is still starting. */
type Meanwhile = (loader: GgufLoader) => Promise<void>;

/** Opens the file while the backend starts; the device may still be starting when this resolves. */
export async function openPlan(
  path: string,
  backend: Backend | Promise<Backend>,
  options: ModelOptions = {},
  meanwhile?: Meanwhile,
): Promise<OpenedPlan> {
  // It is awaited later; a failure before that must not end the process.
  if (backend instanceof Promise) backend.catch(() => {});
  optionalCount("loadModel", "contextTokens", options.contextTokens, 1, MAX_CONTEXT_TOKENS);
  const { draftHead = false, draftHeadPath } = options;
  const given = await GgufLoader.open(path, draftHeadPath === undefined ? {} : { extension: draftHeadPath });
  if (draftHead === false || draftHeadPath !== undefined) return await planOf(given, backend, options, meanwhile);
  const { loader, problem } = await withHeadBeside(given);
  try {
    return await planOf(loader, backend, options, meanwhile);
  } catch (error) {
    if (draftHead === true && problem !== undefined) throw problem;
    // A head that does not fit must not keep a model from running.
    if (draftHead === true || loader === given || !(error instanceof GgufError || error instanceof ModelError))
      throw error;
    return await planOf(await GgufLoader.open(path), backend, options, meanwhile);
  }
}

/** Builds the plan of a file that is open; disposes the loader if that fails. */
export async function planOf(
  loader: GgufLoader,
  backend: Backend | Promise<Backend>,
  options: ModelOptions = {},
  meanwhile?: Meanwhile,
): Promise<OpenedPlan> {
  const { contextTokens, kvCacheType, ignoreMemoryCheck, draftHead, onProgress } = options;
  try {
    requireLanguageModel(loader.file.metadata);
    if (loader.file.tensors.size === 0) throw noTensors(loader);
    checkTokenizerMetadata(loader.file.metadata);
    if (onProgress !== undefined) loader.onProgress(onProgress);
    await meanwhile?.(loader);
    const started = await backend;
    const planStartMs = performance.now();
    const plan = ExecutionPlan.fromLoader(loader, started, {
      ...(contextTokens === undefined ? {} : { contextTokens }),
      ...(kvCacheType === undefined ? {} : { kvCacheType }),
      ...(ignoreMemoryCheck === undefined ? {} : { ignoreMemoryCheck }),
      ...(draftHead === undefined ? {} : { draftHead }),
    });
    requireWholeVocabulary(loader, plan);
    return { loader, plan, planStartMs, planMs: performance.now() - planStartMs };
  } catch (error) {
    await loader[Symbol.asyncDispose]();
    throw withPath(loader.file.path, error);
  }
}

/** Ids that the model can sample and the tokenizer does not know would fail in the middle of a text. */
function requireWholeVocabulary(loader: GgufLoader, plan: ExecutionPlan): void {
  const tokens = loader.file.metadata.array("tokenizer.ggml.tokens")?.length;
  const { vocabularySize } = plan.program;
  if (tokens === undefined || tokens === vocabularySize) return;
  throw new GgufError("GGUF_TOKENIZER", {
    field: "tokenizer.ggml.tokens",
    expected: `${vocabularySize} tokens, as many as the embedding has rows`,
    found: String(tokens),
  });
}

function noTensors({ file }: GgufLoader): ModelError {
  const what = file.metadata.has("tokenizer.ggml.tokens") ? "; it is a vocabulary, which `loadTokenizer` opens" : "";
  return new ModelError("MODEL_INVALID", `[model] ${file.path} has no tensors${what}`, {
    details: { path: file.path },
  });
}
