// From a model's name to a file on this machine. A model that is in a cache is used without asking a server, so that
// starts are fast and work offline; `pullModel` asks for newer ones.

import { HubError } from "../errors.js";
import { modelName } from "./model-name.js";
import { type CachedModel, findCachedHubModel } from "./hub-model.js";
import { type HubSettings, readHubSettings } from "./hub-settings.js";
import { type ModelReference, parseModelName } from "./model-reference.js";
import { previewRemoteModel } from "./model-preview.js";
import { findOllamaModel } from "./ollama-model.js";
import { findRemoteModel, pullRemoteModel, type TransferTuning } from "./pull.js";
import type { ModelPreview, PreviewModelOptions, PulledModel, PullModelOptions } from "./pull-types.js";
import { findCachedUrlModel } from "./url-model.js";

interface Found {
  readonly reference: ModelReference;
  readonly settings: HubSettings;
}

/** Finds a model on this machine, and downloads it if it is not there. */
export async function resolveNamedModel(
  name: string,
  options: PullModelOptions,
  tuning?: TransferTuning,
): Promise<PulledModel> {
  const found = lookUp(name, options.offline);
  const cached = await findCached(found);
  if (cached !== undefined && !cached.isGuess) return labelled(found.reference, cached.path);
  try {
    return await pullFound(name, found, options, tuning);
  } catch (error) {
    // A guess from the cache is better than nothing.
    const isUnreachable = error instanceof HubError && ["HUB_OFFLINE", "HUB_UNAVAILABLE"].includes(error.code);
    if (cached === undefined || !isUnreachable) throw error;
    return labelled(found.reference, cached.path);
  }
}

/** Downloads a model, or what has changed of it. */
export async function pullNamedModel(
  name: string,
  options: PullModelOptions,
  tuning?: TransferTuning,
): Promise<PulledModel> {
  const found = lookUp(name, options.offline);
  if (!found.settings.offline) return await pullFound(name, found, options, tuning);
  const cached = await findCached(found);
  if (cached === undefined) throw offline(name);
  return labelled(found.reference, cached.path);
}

/** Reads a model's header on its server, without downloading the model. */
export async function previewNamedModel(name: string, options: PreviewModelOptions): Promise<ModelPreview> {
  const { reference, settings } = lookUp(name);
  if (reference.kind === "ollama")
    throw new HubError("HUB_NAME", `[hub] ${name}: expected a model on a server, found one on this machine`);
  if (settings.offline) throw offline(name);
  const model = await findRemoteModel(reference, { settings, place: name, options });
  return (await previewRemoteModel(model, options)).preview;
}

/** Parses a name with the settings of the environment. */
export function lookUp(name: string, offlineOption?: boolean): Found {
  const settings = readHubSettings(offlineOption);
  return { settings, reference: parseModelName(name, [new URL(settings.endpoint).host]) };
}

async function pullFound(
  name: string,
  { reference, settings }: Found,
  options: PullModelOptions,
  tuning: TransferTuning | undefined,
): Promise<PulledModel> {
  if (reference.kind === "ollama") return labelled(reference, await findOllamaModel(settings, reference));
  if (settings.offline) throw offline(name);
  const context = { settings, place: name, options, ...(tuning === undefined ? {} : { tuning }) };
  return labelled(reference, await pullRemoteModel(reference, context));
}

async function findCached({ reference, settings }: Found): Promise<CachedModel | undefined> {
  if (reference.kind === "ollama") return undefined;
  if (reference.kind === "hub") return await findCachedHubModel(settings, reference);
  const path = await findCachedUrlModel(settings, reference);
  return path === undefined ? undefined : { path, isGuess: false };
}

function labelled(reference: ModelReference, path: string): PulledModel {
  return { path, label: reference.kind === "ollama" ? reference.label : modelName(path) };
}

function offline(name: string): HubError {
  const message = `[hub] ${name}: it is not in the cache, and offline mode (HF_HUB_OFFLINE or \`offline\`) forbids downloads`;
  return new HubError("HUB_OFFLINE", message, { details: { name } });
}
