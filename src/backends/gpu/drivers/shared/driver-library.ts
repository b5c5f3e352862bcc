// Finds a driver's or a compiler's library and binds its functions, or returns why that failed and what to do. A
// library that is not installed is expected; one that is installed and does not work is not.

import type { GpuErrorKind, UnavailableDetails } from "./gpu-error.js";
import { bindCalls, type BoundCalls, type NativeLibrary, openLibrary, type Prototypes } from "./ffi.js";

/** Why a driver, or a library beside it, cannot be used. */
export interface UnavailableDriver extends UnavailableDetails {
  /** True if nothing is broken: the machine just has no such device. */
  readonly expected: boolean;
}

/** Whether a search ended with a reason instead of a driver, compiler or library. */
export function isUnavailableDriver(found: object): found is UnavailableDriver {
  return "expected" in found;
}

/** A library to find: its names, and what to tell the user if it is missing. */
export interface WantedLibrary {
  /** Human-readable: `the CUDA driver`. */
  readonly what: string;
  /** Environment variable that names the file. */
  readonly variable: string;
  readonly names: readonly string[];
  /** What to do if it is not installed. */
  readonly remedy: string;
  /** Kind of the error if it is missing; `initialisation` by default. */
  readonly kind?: GpuErrorKind;
}

/** Functions of the system's loader, named in error details. */
const OPEN_CALL = "dlopen";
const FIND_CALL = "dlsym";

/**
 * Loads the first library that works, or returns why none does. If the environment variable is set, only the file that
 * it names is tried.
 */
export function findLibrary({
  what,
  variable,
  names,
  remedy,
  kind = "initialisation",
}: WantedLibrary): NativeLibrary | UnavailableDriver {
  const named = process.env[variable];
  const forced = named !== undefined && named !== "";
  const found = openLibrary(forced ? [named] : names);
  if (!("missing" in found)) return found;
  const common = { kind, details: { call: OPEN_CALL, libraries: forced ? [named] : names } };
  if (forced)
    return {
      ...common,
      reason: `${variable} names a library that cannot be used: ${found.reason}`,
      remedy: `correct or unset ${variable}`,
      expected: false,
    };
  if (found.missing === "absent")
    return { ...common, reason: `${what} is not installed (${found.reason})`, remedy, expected: true };
  return {
    ...common,
    reason: `${what} is installed but cannot be used: ${found.reason}`,
    remedy: `reinstall ${what} and its dependencies`,
    expected: false,
  };
}

/** Binds all functions of a table; a library that lacks one of them is an unsupported version. */
export function bindLibrary<Calls extends object>(
  what: string,
  library: NativeLibrary,
  prototypes: Prototypes<Calls>,
  kind?: GpuErrorKind,
): BoundCalls<Calls> | UnavailableDriver {
  const bound = bindCalls(library, prototypes);
  return "lacking" in bound ? wrongVersion(what, library, bound.lacking, kind) : bound;
}

/** The reason for a library that lacks functions. */
export function wrongVersion(
  what: string,
  { name }: NativeLibrary,
  lacking: readonly string[],
  kind: GpuErrorKind = "initialisation",
): UnavailableDriver {
  return {
    kind,
    reason: `${name} is an unsupported version: it has no ${lacking.join(", ")}`,
    remedy: `install a newer version of ${what}`,
    expected: false,
    details: { call: FIND_CALL, library: name, lacking },
  };
}
