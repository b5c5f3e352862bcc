// A model of the provider: an open one, or a file that is loaded at first use. Invariants: a file is loaded once, however
// many calls wait for it; the next call tries again after a load that failed or a device that was lost; what was loaded here
// is disposed here.

import { Lifetime } from "../lifetime.js";
import { checkOptions } from "../model/checked-options.js";
import { LOAD_MODEL_CHECKS, loadModel, type LoadModelOptions } from "../model/load-model.js";
import { Model } from "../model/model.js";
import { refuseValue } from "../options.js";
import { isPlainObject } from "../plain-object.js";
import { unlessAborted } from "../worker/unless-aborted.js";

/** A model file, and how it is loaded. */
export interface ModelFile extends LoadModelOptions {
  readonly path: string;
}

/** A model that can be asked for. */
export interface ProvidedModel extends AsyncDisposable {
  /** The open model; rejects with the signal's reason if that comes first. */
  open(signal: AbortSignal | undefined): Promise<Model>;
}

/** What the caller gave as a model that can be asked for: an open model, a path, or a path with options. */
export function providedModel(where: string, given: unknown, defaults: LoadModelOptions): ProvidedModel {
  if (given instanceof Model) return new OpenModel(given);
  const file = typeof given === "string" ? { path: given } : given;
  if (!isPlainObject(file)) refuseValue(where, "model", "an open model, a path, or an object with `path`", file);
  const { path, ...options } = file;
  if (typeof path !== "string" || path === "") refuseValue(where, "path", "the path of a model file", path);
  checkOptions(where, options, LOAD_MODEL_CHECKS);
  return new LazyModel(() => loadModel(path, { ...defaults, ...options }));
}

/** A model that belongs to the caller. */
class OpenModel implements ProvidedModel {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  async open(): Promise<Model> {
    return this.#model;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A model that is loaded at first use. */
export class LazyModel implements ProvidedModel {
  readonly #load: () => Promise<Model>;
  readonly #lifetime = new Lifetime("the provider");
  #loading: Promise<Model> | undefined;

  constructor(load: () => Promise<Model>) {
    this.#load = load;
  }

  open(signal: AbortSignal | undefined): Promise<Model> {
    return unlessAborted(this.#opened(), signal);
  }

  /** Waits for a load that is in progress, and disposes its model too. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#lifetime.end();
    await (await this.#loading?.catch(() => undefined))?.dispose();
  }

  async #opened(): Promise<Model> {
    this.#lifetime.assertAlive();
    const loading = (this.#loading ??= this.#begin());
    const model = await loading;
    if (model.isLost) {
      // Its memory is freed before the same file is loaded again, by the first call that notices.
      if (this.#loading === loading) this.#loading = this.#begin(model);
      return await this.#opened();
    }
    this.#lifetime.assertAlive();
    return model;
  }

  #begin(lost?: Model): Promise<Model> {
    const loading = (lost?.dispose() ?? Promise.resolve()).then(() => this.#load());
    loading.catch(() => {
      if (this.#loading === loading) this.#loading = undefined;
    });
    return loading;
  }
}
