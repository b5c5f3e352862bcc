// Makes GpuErrors from the status of a library's function: the kind of failure, its text and what to do. HIP and CUDA
// share the numbers that matter here; names and descriptions come from the library itself.

import { GpuError } from "../../../../errors.js";
import type { DriverKind } from "./driver.js";

/** Kinds of GPU failures; each determines an error code and the advice given. */
export type GpuErrorKind =
  | "initialisation"
  | "device not found"
  | "out of memory"
  | "copy"
  | "launch"
  | "kernel load"
  | "compile"
  | "wrong results"
  | "device lost"
  | "internal";

const KINDS = {
  initialisation: {
    code: "GPU_INITIALISATION",
    remedy: "install or update the driver; `rocmforge doctor` shows what was found",
  },
  "device not found": { code: "GPU_DEVICE_NOT_FOUND", remedy: "`rocmforge devices` lists the devices" },
  "out of memory": {
    code: "GPU_OUT_OF_MEMORY",
    remedy:
      "use a shorter context (`contextTokens`), a smaller quantisation or another device, or end other programs that use this one",
  },
  copy: { code: "GPU_COPY", remedy: "load the model again, and report this if it happens again" },
  launch: { code: "GPU_LAUNCH", remedy: "load the model again, and report this if it happens again" },
  "kernel load": {
    code: "GPU_KERNEL_LOAD",
    remedy:
      "the versions of compiler and driver may be too far apart: `rocmforge devices` shows both, update the older one",
  },
  compile: {
    code: "GPU_COMPILE",
    remedy: "`rocmforge devices` shows the compiler in use; a newer one may support this card",
  },
  "wrong results": {
    code: "GPU_WRONG_RESULTS",
    remedy:
      "update the driver or ROCm, and report this with the output of `rocmforge verify`; the `cpu` backend runs the model meanwhile",
  },
  "device lost": {
    code: "GPU_DEVICE_LOST",
    remedy: "load the model again; if that fails too, restart the program and check the system log (dmesg)",
  },
  internal: { code: "GPU_INTERNAL", remedy: "report this with the command and the output of `rocmforge doctor`" },
} as const satisfies Record<GpuErrorKind, { readonly code: string; readonly remedy: string }>;

interface GpuFailure {
  readonly kind: GpuErrorKind;
  /** What failed: `cuda`, `hip device 1`, `hiprtc`. */
  readonly place: string;
  /** What happened, as a sentence without its full stop. */
  readonly what: string;
  /** Replaces the default advice of the kind. */
  readonly remedy?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** Makes a `GpuError` whose code follows from its kind. */
export function gpuError({
  kind,
  place,
  what,
  remedy = KINDS[kind].remedy,
  details = {},
  cause,
}: GpuFailure): GpuError {
  return new GpuError(KINDS[kind].code, `[${place}] ${what}; ${remedy}`, {
    details: { kind, reason: what, remedy, ...details },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Why a driver or its compiler cannot be used, detected before any call has failed. */
export interface UnavailableDetails {
  readonly reason: string;
  readonly remedy: string;
  /** `initialisation` if absent. */
  readonly kind?: GpuErrorKind;
  /** `call`, `number` and `name` if a function of the library failed, and whatever else is known. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The error for a caller that explicitly requested this backend. */
export function unavailableDriverError(
  backend: string,
  { reason, remedy, kind = "initialisation", details }: UnavailableDetails,
): GpuError {
  return gpuError({
    kind,
    place: backend,
    what: `this backend cannot run here: ${reason}`,
    remedy,
    details: { backend, ...details, reason },
  });
}

/** A library's name and description of one of its statuses. */
export interface ErrorWords {
  readonly name: string;
  readonly text: string;
}

interface FailedCall {
  readonly driver: DriverKind;
  readonly place: string;
  /** The library's function. */
  readonly call: string;
  readonly number: number;
  readonly words: ErrorWords;
  /** Kind of the failure, unless the status is more specific. */
  readonly purpose: GpuErrorKind;
  /** Sizes and other arguments, worded as the rest of a sentence. */
  readonly circumstances?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** `hipMalloc returned 2 (hipErrorOutOfMemory, "out of memory")` */
export function callText(call: string, number: number, { name, text }: ErrorWords): string {
  return `${call} returned ${number} (${text === "" || text === name ? name : `${name}, "${text}"`})`;
}

/** Makes the `GpuError` for a call that returned a failure status. */
export function failedCall({
  driver,
  place,
  call,
  number,
  words,
  purpose,
  circumstances,
  details,
}: FailedCall): GpuError {
  return gpuError({
    kind: kindOf(number, purpose),
    place,
    what: `${callText(call, number, words)}${circumstances === undefined ? "" : ` ${circumstances}`}`,
    details: { driver, call, number, name: words.name, ...details },
  });
}

const OUT_OF_MEMORY = 2;
const NO_DEVICE = 100;
const INVALID_DEVICE = 101;
/** Status of a query for an event that has not happened yet. */
export const NOT_READY = 600;
/** Status of a call on a thread that is bound to no device, or to a lost one. */
export const INVALID_CONTEXT = 201;
/** Status of a call after its context was destroyed, as at the end of the process. */
export const CONTEXT_IS_DESTROYED = 709;

/** Statuses for code that does not fit this card or driver, from any call. */
const CODE_REFUSED = new Set([98, 200, 209, 218, 221, 222, 300]);
/**
 * Sticky statuses, which every later call returns again: uncorrectable memory, a bad address, a timeout, a failed
 * kernel.
 */
const LOST = new Set([4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721]);

function kindOf(number: number, purpose: GpuErrorKind): GpuErrorKind {
  if (number === OUT_OF_MEMORY) return "out of memory";
  if (number === NO_DEVICE || number === INVALID_DEVICE)
    return purpose === "initialisation" ? "device not found" : "device lost";
  if (LOST.has(number)) return "device lost";
  if (CODE_REFUSED.has(number)) return "kernel load";
  return purpose;
}

/** Whether a status means that there is no device. */
export function isNoDevice(number: number): boolean {
  return number === NO_DEVICE || number === INVALID_DEVICE;
}
