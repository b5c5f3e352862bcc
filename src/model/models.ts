// The library's functions for models by name: pull, preview, list, remove. Their code is loaded at the first call, so
// that programs that open files by path do not load it.

import { isModelName } from "../hub/model-scheme.js";
import type {
  ListedModel,
  ModelPreview,
  PreviewModelOptions,
  PulledModel,
  PullModelOptions,
  RemovedModel,
} from "../hub/pull-types.js";
import { refuseValue } from "../options.js";
import { callback, checkOptions, flag, type OptionChecks, signal, unchecked } from "./checked-options.js";
import { typedErrors } from "./typed-errors.js";

const PREVIEW_CHECKS: OptionChecks<PreviewModelOptions> = {
  // The registry and the plan check these.
  backend: unchecked,
  contextTokens: unchecked,
  kvCacheType: unchecked,
  threads: unchecked,
  device: unchecked,
  signal,
};

const PULL_CHECKS: OptionChecks<PullModelOptions> = {
  ...PREVIEW_CHECKS,
  offline: flag,
  ignoreMemoryCheck: flag,
  onPreview: callback,
  onProgress: callback,
};

/**
 * Downloads a model into the cache that Hugging Face's tools share, or what has changed of it since: `hf:user/repo`,
 * `hf:user/repo:Q8_0`, `hf:user/repo/file.gguf#branch` or the `https://` address of a GGUF. A model that is not
 * supported or does not fit this device is refused before anything is downloaded. Interrupted downloads resume.
 */
export async function pullModel(name: string, options: PullModelOptions = {}): Promise<PulledModel> {
  return await typedErrors("pullModel", async () => {
    requireName("pullModel", name);
    checkOptions("pullModel", options, PULL_CHECKS);
    const { pullNamedModel } = await import("../hub/resolve-model.js");
    return await pullNamedModel(name, options);
  });
}

/**
 * Says what a model on a server is and whether it would run on this device, from its header alone: family, block types,
 * size, memory, and what would fit.
 */
export async function previewModel(name: string, options: PreviewModelOptions = {}): Promise<ModelPreview> {
  return await typedErrors("previewModel", async () => {
    requireName("previewModel", name);
    checkOptions("previewModel", options, PREVIEW_CHECKS);
    const { previewNamedModel } = await import("../hub/resolve-model.js");
    return await previewNamedModel(name, options);
  });
}

/** The models in the caches of this machine: pulled by this package or by other tools, and Ollama's. */
export async function listModels(): Promise<readonly ListedModel[]> {
  return await typedErrors("listModels", async () => {
    const [{ listCachedModels }, { readHubSettings }] = await Promise.all([
      import("../hub/list-models.js"),
      import("../hub/hub-settings.js"),
    ]);
    return await listCachedModels(readHubSettings());
  });
}

/** Removes a model from the cache; `hf:user/repo` without a quantisation or file removes all GGUF files of it. */
export async function removeModel(name: string): Promise<RemovedModel> {
  return await typedErrors("removeModel", async () => {
    requireName("removeModel", name);
    const [{ removeCachedModel }, { lookUp }] = await Promise.all([
      import("../hub/remove-model.js"),
      import("../hub/resolve-model.js"),
    ]);
    const { settings, reference } = lookUp(name);
    return await removeCachedModel(settings, reference);
  });
}

/** The file of a model that is given by name or by path; one that is not on this machine is downloaded. */
export async function resolveModel(nameOrPath: string, options: PullModelOptions = {}): Promise<PulledModel> {
  if (!isModelName(nameOrPath)) return { path: nameOrPath, label: "" };
  const { resolveNamedModel } = await import("../hub/resolve-model.js");
  return await resolveNamedModel(nameOrPath, options);
}

function requireName(where: string, name: unknown): asserts name is string {
  if (typeof name !== "string" || !isModelName(name))
    refuseValue(where, "name", "a model's name: hf:user/repo[:quant], https://… or ollama:name:tag", name);
}
