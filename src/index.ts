// The library: opens models and tokenizers, and exports the types of their interfaces. It loads no HTTP code; that is
// `rocmforge/server`. The reference makes Node's types available to projects that do not list them.
/// <reference types="node" preserve="true" />

export type { DraftMode } from "./speculation/speculation.js";
export { type BackendName, loadModel, type LoadModelOptions } from "./model/load-model.js";
export { listModels, previewModel, pullModel, removeModel } from "./model/models.js";
export type {
  ListedModel,
  ModelPreview,
  PreviewedMemory,
  PreviewModelOptions,
  PulledModel,
  PullModelOptions,
  PullProgress,
  RemovedModel,
} from "./hub/pull-types.js";
export { loadTokenizer } from "./model/load-tokenizer.js";
export { embeddedModelPath } from "./package-files.js";
export type { EmbedOptions, Model, Prompt } from "./model/model.js";
export type { Chat, Reply, ReplyEvent, ToolCall } from "./model/chat.js";
export type { ChatOptions, Tool, ToolChoiceOption } from "./model/chat-options.js";
export type { FormatOptions } from "./model/response-format.js";
export type { JsonSchema, ReplySchema, StandardResult, StandardSchema } from "./model/response-schema.js";
export { Session, type SessionOptions } from "./model/session.js";
export type { ChatMessage, ChatToolCall } from "./chat/message.js";
export type { ChatFinishReason } from "./completion/chat-event.js";
export type { GenerateOptions } from "./model/generate-options.js";
export type {
  FinishReason,
  Generation,
  GenerationDelta,
  GenerationResult,
  GenerationTimings,
  Usage,
} from "./model/generation.js";
export type { LoadTimings } from "./model/opening.js";
export type { PerplexityOptions, PerplexityProgress } from "./model/perplexity.js";
export type { EngineStatistics, TokenLogprob } from "./engine/serving.js";
export type { WarmUpOptions, WarmUpProgress } from "./engine/warm-up.js";
export type { BackendLoadTimings, KvCacheType } from "./backends/contract.js";
export type { ChatTemplates } from "./chat/template/chat-templates.js";
export type { LoadingProgress, LoadingStats } from "./loader/loading-stats.js";
export type { SamplerOptions } from "./sampler/options.js";
export type { TokenBytes } from "./tokenizer/stream-decoder.js";
export type {
  DecodeOptions,
  EncodeOptions,
  SegmentsOptions,
  StreamDecodeOptions,
  StreamDecoder,
  TextSegment,
  Tokenizer,
} from "./tokenizer/tokenizer.js";
export {
  BackendError,
  ChatError,
  ContextError,
  DisposedError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorCodeOf,
  FileError,
  GgufError,
  type GgufFinding,
  GpuError,
  GrammarError,
  HubError,
  ModelError,
  OptionError,
  PackageError,
  QuantError,
  RocmForgeError,
  type RocmForgeErrorOptions,
  ServingError,
  SystemError,
  TensorError,
  TokenizerError,
} from "./errors.js";
