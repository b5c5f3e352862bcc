// GpuErrors from what a library's function returned: which kind of failure a number is, in words, and what to do.
// HIP and CUDA share the numbers that matter here; the names and sentences come from the library itself.

import { GpuError } from "../../../../errors.js";
import type { DriverKind } from "./driver.js";

export type GpuErrorKind =
  | "initialisation"
  | "device not found"
  | "out of memory"
  | "copy"
  | "launch"
  | "kernel load"
  | "compile"
  | "device lost"
  | "internal";

const KINDS = {
  initialisation: {
    code: "GPU_INITIALISATION",
    remedy: "install or update the driver; `rocmforge doctor` shows what was found",
  },
  "device not found": { code: "GPU_DEVICE_NOT_FOUND", remedy: "`rocmforge devices` lists what is there" },
  "out of memory": {
    code: "GPU_OUT_OF_MEMORY",
    remedy:
      "take a shorter context (`contextTokens`), a smaller quantisation or another device, or end what else uses this one",
  },
  copy: { code: "GPU_COPY", remedy: "load the model again, and report this if it comes back" },
  launch: { code: "GPU_LAUNCH", remedy: "load the model again, and report this if it comes back" },
  "kernel load": {
    code: "GPU_KERNEL_LOAD",
    remedy:
      "the compiler and the driver may be too far apart in age: `rocmforge devices` shows both, update the older one",
  },
  compile: {
    code: "GPU_COMPILE",
    remedy: "`rocmforge devices` shows the compiler in use; a newer one may know this card",
  },
  "device lost": {
    code: "GPU_DEVICE_LOST",
    remedy: "load the model again; if that fails too start the program anew, and look into the system's log (dmesg)",
  },
  internal: { code: "GPU_INTERNAL", remedy: "report this with the command and the output of `rocmforge doctor`" },
} as const satisfies Record<GpuErrorKind, { readonly code: string; readonly remedy: string }>;

interface GpuFailure {
  readonly kind: GpuErrorKind;
  /** What stopped: `cuda`, `hip device 1`, `hiprtc`. */
  readonly place: string;
  /** What happened, as a sentence without its full stop. */
  readonly what: string;
  /** In place of the advice that goes with the kind. */
  readonly remedy?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

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
  /** Absent: `initialisation`. */
  readonly kind?: GpuErrorKind;
  /** `call`, `number` and `name` if a function of the library failed, and what else is known. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The error for a caller that asked for this backend and no other. */
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

/** What a library says of one of its numbers. */
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
  /** What a failure of this call is, unless the number tells more. */
  readonly purpose: GpuErrorKind;
  /** Sizes and the like, as the rest of a sentence. */
  readonly circumstances?: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** `hipMalloc returned 2 (hipErrorOutOfMemory, "out of memory")` */
export function callText(call: string, number: number, { name, text }: ErrorWords): string {
  return `${call} returned ${number} (${text === "" || text === name ? name : `${name}, "${text}"`})`;
}

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
export const NOT_READY = 600;
/** The thread works on no device, or on one that is gone. */
export const INVALID_CONTEXT = 201;
export const CONTEXT_IS_DESTROYED = 709;

/** Code that is not for this card or this driver, whichever call finds out. */
const CODE_REFUSED = new Set([98, 200, 209, 218, 221, 222, 300]);
/**
 * After one of these every later call gives it again: uncorrectable memory, a bad address, a timeout, a failed kernel.
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

export function isNoDevice(number: number): boolean {
  return number === NO_DEVICE || number === INVALID_DEVICE;
}
