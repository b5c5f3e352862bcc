// The file of the model that a command's options name. A model that is not on this machine is downloaded first, with
// what is known of it before the download and the progress on stderr; Ctrl-C keeps what has arrived.

import { isModelName } from "../hub/model-scheme.js";
import type { PulledModel, PullModelOptions } from "../hub/pull-types.js";
import { resolveModel } from "../model/models.js";
import { Interrupt, Interrupted } from "./interrupt.js";
import { EMBEDDED_MODEL, type ModelValues } from "./model-options.js";
import { Progress } from "./progress.js";
import { describePreview, describePull } from "./pull-text.js";

/** The options of a command that concern its model; commands that compute nothing have the first two only. */
export type ModelFileValues = Pick<ModelValues, "model" | "offline"> & Partial<Omit<ModelValues, "model" | "offline">>;

/** The path of the chosen model, or of the embedded one. */
export async function modelFile(values: ModelFileValues): Promise<string> {
  return (await namedModel(values.model ?? EMBEDDED_MODEL, values)).path;
}

/** The file of a model that is given by name or by path. */
export async function namedModel(name: string, values: ModelFileValues): Promise<PulledModel> {
  if (!isModelName(name)) return { path: name, label: "" };
  return await pulling(name, pullValues(values), (options) => resolveModel(name, options));
}

/** The options of a download that a command's options give. */
export function pullValues(values: Omit<ModelFileValues, "model">): PullModelOptions {
  const { backend, ctx, "kv-type": kvType, threads, device, force, offline } = values;
  return {
    ...(backend === undefined ? {} : { backend: backend as NonNullable<PullModelOptions["backend"]> }),
    ...(ctx === undefined ? {} : { contextTokens: ctx }),
    ...(kvType === undefined ? {} : { kvCacheType: kvType as NonNullable<PullModelOptions["kvCacheType"]> }),
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device: /^\d+$/.test(device) ? Number(device) : device }),
    // Commands without this option compute nothing, so nothing has to fit.
    ignoreMemoryCheck: force ?? true,
    offline,
  };
}

/** Runs a download with progress on stderr; Ctrl-C ends it and says how to go on. */
export async function pulling<Result>(
  name: string,
  options: PullModelOptions,
  pull: (options: PullModelOptions) => Promise<Result>,
): Promise<Result> {
  using interrupt = new Interrupt({ ignoresEchoes: true });
  using progress = new Progress(`looking for ${name}`);
  try {
    return await pull({
      ...options,
      signal: interrupt.signal,
      onPreview: (preview) => {
        if (preview.missingBytes > 0) progress.note(describePreview(preview, options.ignoreMemoryCheck === true));
      },
      onProgress: (report) => progress.update(describePull(report)),
    });
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    progress.end();
    throw new Interrupted(`interrupted; the same command resumes the download of ${name}`, interrupt.exitStatus);
  }
}
