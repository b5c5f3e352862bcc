// The provider: language and embedding models by name, over models of this process. Invariants: a name that was not given
// is refused with the SDK's own error; models that the provider loaded are disposed with it, and no others.

import type { EmbeddingModelV4, LanguageModelV4, ProviderV4 } from "@ai-sdk/provider";
import { Lifetime } from "../lifetime.js";
import { checkOptions } from "../model/checked-options.js";
import { LOAD_MODEL_CHECKS, type LoadModelOptions } from "../model/load-model.js";
import type { Model } from "../model/model.js";
import { refuseUnknownKeys, refuseValue } from "../options.js";
import { isPlainObject } from "../plain-object.js";
import { RocmForgeEmbeddingModel } from "./embedding-model.js";
import { RocmForgeLanguageModel } from "./language-model.js";
import { type ModelFile, type ProvidedModel, providedModel } from "./provided-model.js";
import { NoSuchModelError } from "./sdk-errors.js";

const WHERE = "createRocmForge";

/** Settings of `createRocmForge`. */
export interface RocmForgeProviderSettings<Id extends string = string> {
  /**
   * The models by the names that the program uses: open models, which the caller disposes, or files, each of which is
   * loaded once, at its first use, and disposed with the provider.
   */
  readonly models: Readonly<Record<Id, Model | string | ModelFile>>;
  /** How the files are loaded; options of a file itself take precedence. */
  readonly model?: LoadModelOptions;
}

/** A provider of the AI SDK whose models run in this process. */
export interface RocmForgeProvider<Id extends string = string> extends ProviderV4, AsyncDisposable {
  /** The language model of that name, as `languageModel` returns it. */
  (modelId: Id | (string & {})): LanguageModelV4;
  /** A language model for `generateText` and `streamText`; throws the SDK's NoSuchModelError for an unknown name. */
  languageModel(modelId: Id | (string & {})): LanguageModelV4;
  /** An embedding model for `embed` and `embedMany`; throws the SDK's NoSuchModelError for an unknown name. */
  embeddingModel(modelId: Id | (string & {})): EmbeddingModelV4;
  /** Always throws the SDK's NoSuchModelError: no model here generates images. */
  imageModel(modelId: string): never;
  /** Disposes the models that the provider has loaded; models that were passed to it stay open. */
  dispose(): Promise<void>;
}

/** Makes models of this process available to the AI SDK; nothing is loaded yet. */
export function createRocmForge<Id extends string>(settings: RocmForgeProviderSettings<Id>): RocmForgeProvider<Id> {
  const provided = providedModels(settings);
  const lifetime = new Lifetime("the provider");
  const find = (modelId: string, modelType: NoSuchModelError["modelType"]): ProvidedModel => {
    lifetime.assertAlive();
    const found = provided.get(modelId);
    if (found === undefined) throw new NoSuchModelError({ modelId, modelType, known: [...provided.keys()] });
    return found;
  };
  const languageModel = (modelId: string): LanguageModelV4 =>
    new RocmForgeLanguageModel(modelId, find(modelId, "languageModel"));
  const dispose = async (): Promise<void> => {
    lifetime.end();
    await Promise.all([...provided.values()].map((each) => each[Symbol.asyncDispose]()));
  };
  return Object.assign((modelId: string) => languageModel(modelId), {
    specificationVersion: "v4" as const,
    languageModel,
    embeddingModel: (modelId: string) => new RocmForgeEmbeddingModel(modelId, find(modelId, "embeddingModel")),
    imageModel: (modelId: string): never => {
      throw new NoSuchModelError({ modelId, modelType: "imageModel", known: [] });
    },
    dispose,
    [Symbol.asyncDispose]: dispose,
  });
}

function providedModels(settings: RocmForgeProviderSettings): ReadonlyMap<string, ProvidedModel> {
  refuseUnknownKeys(WHERE, settings, ["models", "model"]);
  const { models, model = {} } = settings;
  if (!isPlainObject(models) || Object.keys(models).length === 0)
    refuseValue(WHERE, "models", 'models by name, such as { story: "model.gguf" }', models);
  checkOptions(`${WHERE}.model`, model, LOAD_MODEL_CHECKS);
  return new Map(
    Object.entries(models).map(([name, given]) => [name, providedModel(`${WHERE}.models.${name}`, given, model)]),
  );
}
