// The environment variables that change how this package or a driver works, as `doctor` shows them. Invariant: only
// values that cannot be secrets are shown; of all others it is said that they are set.

import { redacted } from "./redaction.js";

/** A variable that is set. */
export interface SettingReport {
  readonly name: string;
  /** Undefined if the value is not shown. */
  readonly value: string | undefined;
}

/** Variables whose values are switches, numbers, names of devices, or paths. */
const SHOWN =
  /^(?:ROCMFORGE_(?:CPU_ISA|(?:HIP|HIPRTC|HIPBLASLT|CUDA|NVRTC|CUBLASLT)_LIBRARY|KERNEL_CACHE|MODEL_CACHE|GPU_[A-Z]+|ADDON)|HF_HOME|HF_HUB_CACHE|HF_HUB_OFFLINE|HUGGINGFACE_HUB_CACHE|OLLAMA_MODELS|XDG_CACHE_HOME|ROCM_PATH|HIP_PATH|LD_LIBRARY_PATH|HSA_OVERRIDE_GFX_VERSION|(?:HIP|ROCR|CUDA)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|NO_COLOR|NODE_ENV)$/;
/** Variables that matter, but whose values may be secrets or may contain some. */
const HIDDEN = /^(?:ROCMFORGE_\w+|HF_\w+|NODE_OPTIONS|HTTPS?_PROXY|https?_proxy|NO_PROXY|no_proxy)$/;
const MAX_CHARACTERS = 200;

/** Redacted before it is cut: half of a folder's name would not be recognised. */
function shownValue(value: string): string {
  return redacted(value).slice(0, MAX_CHARACTERS);
}

/** The variables that are set and matter, by name. */
export function readSettings(environment: NodeJS.ProcessEnv = process.env): readonly SettingReport[] {
  return Object.entries(environment)
    .filter(([name, value]) => value !== undefined && value !== "" && (SHOWN.test(name) || HIDDEN.test(name)))
    .map(([name, value = ""]) => ({ name, value: SHOWN.test(name) ? shownValue(value) : undefined }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}
