// Starts drivers early. Starting one takes a quarter of a second or more on a thread of Node's pool, so it begins
// before anything else is loaded; this file therefore imports little. Code that looks for the driver later finds it
// running, or starts it again and reports the failure.

import { type CudaCalls, CUDA_LIBRARIES, CUDA_LIBRARY_VARIABLE, CUDA_OWN_CALLS } from "./cuda/ffi.js";
import type { DriverKind } from "./shared/driver.js";
import { HIP_LIBRARY_VARIABLE, HIP_OWN_CALLS, type HipCalls } from "./hip/ffi.js";
import { hipLibraries } from "./hip/libraries.js";
import { bindCalls, inBackground, type NativeLibrary, openLibrary, Outputs } from "./shared/ffi.js";
import { absentDriver } from "./shared/probe.js";

interface Starter {
  readonly variable: string;
  readonly libraries: () => readonly string[];
  /** Makes the first call, which takes long; undefined if the library has no such function. */
  start(library: NativeLibrary): Promise<unknown> | undefined;
}

const STARTERS: Readonly<Record<DriverKind, Starter>> = {
  cuda: {
    variable: CUDA_LIBRARY_VARIABLE,
    libraries: () => CUDA_LIBRARIES,
    start(library) {
      const bound = bindCalls<Pick<CudaCalls, "initialise">>(library, { initialise: CUDA_OWN_CALLS.initialise });
      return "lacking" in bound ? undefined : inBackground(bound.calls.initialise, 0);
    },
  },
  hip: {
    variable: HIP_LIBRARY_VARIABLE,
    libraries: hipLibraries,
    start(library) {
      const bound = bindCalls<Pick<HipCalls, "deviceCount">>(library, { deviceCount: HIP_OWN_CALLS.deviceCount });
      if ("lacking" in bound) return undefined;
      const out = new Outputs(8);
      // Keeps the memory alive until the call has written to it.
      return inBackground(bound.calls.deviceCount, out.address).then(() => out.clear());
    },
  },
};

/** One start per library, shared by all callers that wait for it. */
const starts = new Map<string, Promise<void>>();
const startTimesMs = new Map<DriverKind, number>();

/** When the driver's start began, for benchmarks; undefined if it was not started early. */
export function driverStartMs(kind: DriverKind): number | undefined {
  return startTimesMs.get(kind);
}

/**
 * Starts a driver in the background; undefined if this machine has none. The promise never rejects: errors appear when
 * the driver is used.
 */
export function startDriverEarly(kind: DriverKind): Promise<void> | undefined {
  if (absentDriver(kind) !== undefined) return undefined;
  const { variable, libraries, start } = STARTERS[kind];
  const named = process.env[variable] ?? "";
  const library = openLibrary(named === "" ? libraries() : [named]);
  if ("missing" in library) return undefined;
  const name = `${kind} ${library.name}`;
  const known = starts.get(name);
  if (known !== undefined) return known;
  const starting = start(library);
  if (starting === undefined) return undefined;
  const started = settled(starting);
  starts.set(name, started);
  if (!startTimesMs.has(kind)) startTimesMs.set(kind, performance.now());
  return started;
}

async function settled(work: Promise<unknown>): Promise<void> {
  await Promise.allSettled([work]);
}
