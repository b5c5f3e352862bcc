// The parts of the library, for tools that need more than its interface: backends, plans, loaders. Any release may change
// them.
/// <reference types="node" preserve="true" />

export type {
  Backend,
  BackendMemory,
  BackendOptions,
  CompiledProgram,
  KvCache,
  KvCacheOptions,
  OutputRequest,
  OutputRow,
  OutputWant,
  RunOptions,
  StepInput,
} from "./backends/contract.js";
export type { StepShape, WarmUpStep } from "./backends/warm-up-step.js";
export { backendNames, type BackendReport, createBackend, detectBackends } from "./backends/registry.js";
export type { HyperParameters } from "./architectures/descriptor.js";
export { Engine, type EngineParts } from "./engine/engine.js";
export { type OpenedPlan, openPlan } from "./engine/open-plan.js";
export type {
  Completion,
  CompletionDelta,
  CompletionRequest,
  CompletionSummary,
  TokenConstraint,
  WholeCompletion,
} from "./engine/serving.js";
export type { ServingOptions } from "./engine/serving-options.js";
export type { MappedFile } from "./gguf/mapping.js";
export type { Program } from "./graph/program.js";
export { GgufLoader, type GgufLoaderOptions } from "./loader/gguf-loader.js";
export type { ChatResult } from "./completion/chat-event.js";
export type { ChatFollower, ChatStart } from "./model/chat.js";
export type { StartCompletion } from "./model/generation.js";
export { openModel, type ServedModelOptions } from "./model/load-model.js";
export { Model } from "./model/model.js";
export type { OpenOptions } from "./model/opening.js";
export type { SessionModel } from "./model/session.js";
export { ExecutionPlan, type PlanMemory } from "./plan/execution-plan.js";
export type { LayerPlan, LayerProblem } from "./plan/layer-plan.js";
export type { PlanConfig } from "./plan/plan-config.js";
export type { DeviceTensor } from "./tensor/device-tensor.js";
export type { LazyTensor, LazyTensorState } from "./tensor/lazy-tensor.js";
