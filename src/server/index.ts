// `rocmforge/server`: models behind an OpenAI-compatible HTTP server, in this process.
/// <reference types="node" preserve="true" />

import type { ServingOptions } from "../engine/serving-options.js";
import type { WarmUpProgress } from "../engine/warm-up.js";
import { checkOptions } from "../model/checked-options.js";
import { LOAD_MODEL_CHECKS, type LoadModelOptions, openModel } from "../model/load-model.js";
import { typedErrors } from "../model/typed-errors.js";
import { optionalFlag, optionalSignal, refuseUnknownKeys, refuseValue } from "../options.js";
import { explainedByBundle } from "../package-files.js";
import { isPlainObject } from "../plain-object.js";
import type { RunningServer, ServerSettings } from "./launch.js";

export type { ModelListing } from "../engine/serving.js";
export type { ServingOptions } from "../engine/serving-options.js";
export type { WarmUpProgress } from "../engine/warm-up.js";
export type { RunningServer, ServerSettings } from "./launch.js";

/** Options of `serve`. */
export interface ServeOptions extends ServerSettings {
  /** By the names that requests use. The first is loaded at once, the others when a request asks for them. */
  readonly models: readonly { readonly name: string; readonly path: string }[];
  /** How each of them is opened. */
  readonly model?: LoadModelOptions;
  /** How each of them serves many requests at once. */
  readonly serving?: ServingOptions;
  /** A model that was not used for this long is unloaded; by default none is. */
  readonly idleTimeoutMs?: number;
  /**
   * Prepares kernels, library plans and graphs for batches and prompts of all sizes once a model is loaded, so that no
   * request stops for them; true by default. Requests that come before the end of it are served, and go first.
   */
  readonly warmUp?: boolean;
  /** Called as the first model's warm-up goes on. */
  readonly onWarmUp?: (progress: WarmUpProgress) => void;
  /** Aborting it ends the start, which then fails with its reason; a running server is ended by `stop`. */
  readonly signal?: AbortSignal;
}

/** Starts a server. It listens and its first model is loaded when this resolves; `ready` resolves when that is warmed up. */
export async function serve(options: ServeOptions): Promise<RunningServer> {
  return await typedErrors("serve", async () => {
    if (typeof options !== "object" || options === null)
      refuseValue("serve", "options", "an object with `models`", options);
    const { models, model = {}, serving = {}, idleTimeoutMs, signal, warmUp, onWarmUp, ...server } = options;
    requireModels(models);
    checkOptions("serve.model", model, LOAD_MODEL_CHECKS);
    optionalSignal("serve", "signal", signal);
    const warmsUp = optionalFlag("serve", "warmUp", warmUp) ?? true;
    if (onWarmUp !== undefined && typeof onWarmUp !== "function")
      refuseValue("serve", "onWarmUp", "a function", onWarmUp);
    const { launch } = await serverCode();
    return await launch({
      models,
      openModel: ({ name, path }) => openModel(path, model, { name, serving }),
      idleTimeoutMs,
      warmUp: warmsUp,
      onWarmUp,
      server,
      signal,
    });
  });
}

/** Wrong options are refused before the server's packages are loaded; in a bundle these may not even load. */
async function serverCode(): Promise<typeof import("./launch.js")> {
  try {
    return await import("./launch.js");
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
