// Finds a driver's or a compiler's library and binds what is needed of it, or says in words why not and what to do.
// What is simply not installed is expected; what is there and does not work is not.

import { bindCalls, type BoundCalls, type NativeLibrary, openLibrary, type Prototypes } from "./ffi.js";

/** Why a driver cannot be used. */
export interface DriverObstacle {
  readonly reason: string;
  readonly remedy: string;
  /** Nothing is wrong: the machine just has no such device. */
  readonly expected: boolean;
}

export function isObstacle(found: object): found is DriverObstacle {
  return "expected" in found;
}

export interface WantedLibrary {
  /** For people: `the CUDA driver`. */
  readonly what: string;
  /** Environment variable that names the file. */
  readonly variable: string;
  readonly names: readonly string[];
  /** What to do where it is not installed. */
  readonly remedy: string;
}

/** A variable that is set has the last word: nothing else is tried. */
export function findLibrary({ what, variable, names, remedy }: WantedLibrary): NativeLibrary | DriverObstacle {
  const named = process.env[variable];
  const forced = named !== undefined && named !== "";
  const found = openLibrary(forced ? [named] : names);
  if (!("missing" in found)) return found;
  if (forced) return { reason: `${variable} names a library that cannot be used: ${found.reason}`, remedy: `correct or unset ${variable}`, expected: false };
  if (found.missing === "absent") return { reason: `${what} is not installed (${found.reason})`, remedy, expected: true };
  return { reason: `${what} is installed but cannot be used: ${found.reason}`, remedy: `install ${what} anew, with what it depends on`, expected: false };
}

/** Binds a table; a library without one of its functions is another version than this package knows. */
export function bindLibrary<Calls extends object>(what: string, library: NativeLibrary, prototypes: Prototypes<Calls>): BoundCalls<Calls> | DriverObstacle {
  const bound = bindCalls(library, prototypes);
  if (!("lacking" in bound)) return bound;
  return {
    reason: `${library.name} is of the wrong version for this package: it has no ${bound.lacking.join(", ")}`,
    remedy: `install a newer version of ${what}`,
    expected: false,
  };
}
