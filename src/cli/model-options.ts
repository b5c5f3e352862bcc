// The options of every command that opens a model, and how they map to the library's options.

import type { BackendName, KvCacheType, LoadModelOptions } from "../index.js";
import { embeddedModelPath } from "../package-files.js";
import type { BackendOptions } from "../backends/contract.js";
import { backendNames } from "../backends/registry.js";
import type { LoadingProgress } from "../loader/loading-stats.js";
import { draftOptions, type DraftValues } from "./draft-options.js";
import { formatBytes } from "./format.js";
import type { OptionTable, OptionValues } from "./option-table.js";
import type { Progress } from "./progress.js";

/** The path of the model that is used without -m. */
export const EMBEDDED_MODEL = embeddedModelPath();

const SECTION = "model";
/** Larger than any published model's context; the library makes the final check. */
const MAX_CONTEXT_TOKENS = 2 ** 24;
const MAX_THREADS = 1024;

/** The option that names the model. */
export const MODEL_OPTION = {
  model: {
    kind: "path",
    short: "m",
    placeholder: "MODEL",
    section: SECTION,
    description: "GGUF file (the first part of a split one), hf:user/repo[:quant], https://… or ollama:name:tag",
    fallback: "the embedded fable-10m",
  },
  offline: {
    kind: "flag",
    section: SECTION,
    description: "download nothing: a model that is given by name has to be in the cache",
  },
} as const satisfies OptionTable;

/** The options that every command has. */
export const GENERAL_OPTIONS = {
  verbose: {
    kind: "flag",
    section: "general",
    description: "show an error's code, all problems and their causes",
  },
  help: { kind: "flag", short: "h", section: "general", description: "show this text" },
} as const satisfies OptionTable;

/** The options of every command that opens a model. */
export const MODEL_OPTIONS = {
  ...MODEL_OPTION,
  ctx: {
    kind: "count",
    short: "c",
    placeholder: "TOKENS",
    section: SECTION,
    range: { from: 1, to: MAX_CONTEXT_TOKENS },
    description: "context length: tokens of prompt and answer together",
    fallback: "the model's own, at most 4096",
  },
  backend: {
    kind: "text",
    placeholder: "NAME",
    section: SECTION,
    values: ["auto", ...backendNames()],
    description: `backend: auto, ${backendNames().join(", ")}`,
    fallback: "auto",
  },
  threads: {
    kind: "count",
    short: "t",
    placeholder: "COUNT",
    section: SECTION,
    range: { from: 1, to: MAX_THREADS },
    description: "CPU threads",
    fallback: "one per physical core",
  },
  device: { kind: "text", placeholder: "NAME", section: SECTION, description: "name or number of the GPU" },
  "kv-type": {
    kind: "text",
    placeholder: "TYPE",
    section: SECTION,
    values: ["f32", "f16", "q8_0"],
    description: "type of the KV cache: f32, f16, q8_0",
    fallback: "the backend's choice",
  },
  force: {
    kind: "flag",
    section: SECTION,
    description: "load the model even if it seems too large for the free memory",
  },
  deterministic: {
    kind: "flag",
    section: SECTION,
    description: "bit-exact results regardless of batching; slower prefill",
  },
} as const satisfies OptionTable;

/** The values of `MODEL_OPTIONS`. */
export type ModelValues = OptionValues<typeof MODEL_OPTIONS>;

/** The options for `loadModel`; those that were not given are left out. */
export function loadOptions(
  values: Omit<ModelValues, "model" | "offline"> & Partial<DraftValues>,
  progress: Pick<Progress, "update">,
): LoadModelOptions {
  return {
    ...(values.backend === undefined ? {} : { backend: values.backend as BackendName }),
    ...planOptions(values),
    ...backendOptions(values),
    ...draftOptions(values),
    onProgress: (loading) => progress.update(describeLoading(loading)),
  };
}

/** The options that determine the plan; the library checks the KV type. */
export function planOptions({
  ctx,
  "kv-type": kvType,
  force,
}: Pick<ModelValues, "ctx" | "kv-type" | "force">): Pick<
  LoadModelOptions,
  "contextTokens" | "kvCacheType" | "ignoreMemoryCheck"
> {
  return {
    ...(ctx === undefined ? {} : { contextTokens: ctx }),
    ...(kvType === undefined ? {} : { kvCacheType: kvType as KvCacheType }),
    ...(force ? { ignoreMemoryCheck: true } : {}),
  };
}

/** The options for creating a backend; those that were not given are left out. */
export function backendOptions({
  threads,
  device,
  deterministic,
}: Pick<ModelValues, "threads" | "device" | "deterministic">): BackendOptions {
  return {
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device: /^\d+$/.test(device) ? Number(device) : device }),
    ...(deterministic ? { deterministic } : {}),
  };
}

function describeLoading({ loadedTensors, totalTensors, loadedBytes, totalBytes }: LoadingProgress): string {
  if (loadedTensors === totalTensors) return "computing, all weights loaded";
  return `loading the weights, ${formatBytes(loadedBytes)} of ${formatBytes(totalBytes)} (${loadedTensors} of ${totalTensors} tensors)`;
}
