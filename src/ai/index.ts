// `rocmforge/ai`: models of this process as a provider of the AI SDK, specification V4. Of the SDK's packages only types
// are imported, so that this entry point loads whether or not they are installed.
/// <reference types="node" preserve="true" />

export { createRocmForge, type RocmForgeProvider, type RocmForgeProviderSettings } from "./provider.js";
export type { ModelFile } from "./provided-model.js";
export type { ReasoningEffort, RocmForgeLanguageModelOptions } from "./language-model-options.js";
