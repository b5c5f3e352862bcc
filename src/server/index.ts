// `rocmforge/server`: models behind an OpenAI-compatible HTTP server, in this process.
/// <reference types="node" preserve="true" />

import type { PullModelOptions } from "../hub/pull-types.js";
import type { ServingOptions } from "../engine/serving-options.js";
import type { WarmUpProgress } from "../engine/warm-up.js";
import { checkOptions } from "../model/checked-options.js";
import { LOAD_MODEL_CHECKS, type LoadModelOptions, openModel, pullOptions } from "../model/load-model.js";
import { Model } from "../model/model.js";
import { resolveModel } from "../model/models.js";
import { typedErrors } from "../model/typed-errors.js";
import { optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue } from "../options.js";
import { explainedByBundle } from "../package-files.js";
import { isPlainObject } from "../plain-object.js";
import type { ServerSettings } from "./completion/server-options.js";
import type { LaunchedModel, RunningServer, ServerAddresses } from "./launch.js";

export type { ModelListing } from "../engine/serving.js";
export type { ServingOptions } from "../engine/serving-options.js";
export type { WarmUpProgress } from "../engine/warm-up.js";
export type { LogDestination } from "../log/bounded-log.js";
export type { LogLevel, ServerSettings } from "./completion/server-options.js";
export type { ServerLimits } from "./http/limits.js";
export type { RunningServer, ServerAddresses } from "./launch.js";

/** A model with the name that requests use; its path may also be a name such as `hf:user/repo`. */
export interface NamedModelFile {
  readonly name: string;
  readonly path: string;
}

/** Options of `serve`. */
export interface ServeOptions extends ServerSettings {
  /**
   * The models by the names that requests use: paths of files, of which the first is loaded at once and the others on
   * the first request for them, or open models, which the caller disposes after the server has stopped.
   */
  readonly models: readonly NamedModelFile[] | Readonly<Record<string, string | Model>>;
  /** How the model files are opened. */
  readonly model?: LoadModelOptions;
  /** How each model serves concurrent requests: batch size, queue, KV cache. */
  readonly serving?: ServingOptions;
  /** Unloads a model that was not used for this long; by default none is unloaded. */
  readonly idleTimeoutMs?: number;
  /**
   * Prepares kernels, BLAS plans and graphs for batches and prompts of all sizes once a model is loaded, so that no
   * request waits for them; true by default. Requests that arrive during the warm-up are served first.
   */
  readonly warmUp?: boolean;
  /** Called with the progress of the first model's warm-up. */
  readonly onWarmUp?: (progress: WarmUpProgress) => void;
  /**
   * Called when the server listens, before its first model is loaded: pages and `/health` answer from then on, and
   * requests wait for the model.
   */
  readonly onListening?: (addresses: ServerAddresses) => void;
  /** Aborts the start, which then rejects with the signal's reason; use `stop` for a running server. */
  readonly signal?: AbortSignal;
}

/**
 * Starts a server. Resolves when it listens and its first model is loaded; `ready` resolves when that model is warmed
 * up.
 */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  return await typedErrors("serve", async () => {
    if (typeof options !== "object" || options === null)
      refuseValue("serve", "options", "an object with `models`", options);
    const {
      models,
      model = {},
      serving = {},
      idleTimeoutMs,
      signal,
      warmUp,
      onWarmUp,
      onListening,
      ...server
    } = options;
    const entries = modelEntries(models);
    checkOptions("serve.model", model, LOAD_MODEL_CHECKS);
    optionalSignal("serve", "signal", signal);
    const warmsUp = optionalFlag("serve", "warmUp", warmUp) ?? true;
    optionalFunction("onWarmUp", onWarmUp);
    optionalFunction("onListening", onListening);
    const { launch } = await serverCode();
    const files = await filesOf(entries, { ...pullOptions(model), ...(signal === undefined ? {} : { signal }) });
    return await launch({
      models: files,
      openModel: async ({ name, path }) => {
        const open = entries.find((entry) => entry.name === name)?.model;
        return open === undefined ? await openModel(path, model, { name, serving }) : viewOf(open, name);
      },
      idleTimeoutMs,
      warmUp: warmsUp,
      onWarmUp,
      onListening,
      server,
      signal,
    });
  });
}

function optionalFunction(option: string, value: unknown): void {
  if (value !== undefined && typeof value !== "function") refuseValue("serve", option, "a function", value);
}

/** Invalid options are refused before the server's packages are loaded; in a bundle these may not even load. */
async function serverCode(): Promise<typeof import("./launch.js")> {
  try {
    return await import("./launch.js");
  } catch (error) {
    throw explainedByBundle("serve", error);
  }
}

/** Downloads models that are given by name and not on this machine, so that no request waits for a download. */
async function filesOf(entries: readonly ModelEntry[], options: PullModelOptions): Promise<readonly NamedModelFile[]> {
  const files: NamedModelFile[] = [];
  for (const { name, path, model } of entries)
    files.push({ name, path: model === undefined ? (await resolveModel(path, options)).path : path });
  return files;
}

interface ModelEntry extends NamedModelFile {
  readonly model?: Model;
}

function modelEntries(models: unknown): readonly ModelEntry[] {
  if (!isPlainObject(models)) {
    requireModelFiles(models);
    return models;
  }
  const entries = Object.entries(models);
  if (entries.length === 0) refuseValue("serve", "models", "at least one model", "none");
  return entries.map(([name, model]) => {
    if (typeof model === "string" && model !== "") return { name, path: model };
    if (model instanceof Model) return { name, path: model.path, model };
    return refuseValue("serve", `models.${name}`, "a path or an open model", model);
  });
}

function requireModelFiles(models: unknown): asserts models is readonly NamedModelFile[] {
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

/** An open model under another name: it shares the engine, and disposing it disposes nothing. */
function viewOf(model: Model, name: string): LaunchedModel {
  const { engine } = model;
  return {
    engine: {
      name,
      contextTokens: engine.contextTokens,
      vocabularySize: engine.vocabularySize,
      get backend() {
        return engine.backend;
      },
      get tokenizer() {
        return engine.tokenizer;
      },
      get chatTemplates() {
        return engine.chatTemplates;
      },
      readHeader: () => engine.readHeader(),
      complete: (request) => engine.complete(request),
      embed: (tokens, signal) => engine.embed(tokens, signal),
      statistics: () => engine.statistics(),
      get residency() {
        return engine.residency;
      },
    },
    get isLost() {
      return model.isLost;
    },
    warmUp: (options) => model.warmUp(options),
    [Symbol.asyncDispose]: async () => {},
  };
}
