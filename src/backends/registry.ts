// The backends by name, best first. The library, the command line and the server choose by name; a backend's code is
// loaded when it is chosen.

import { BackendError, GpuError } from "../errors.js";
import { didYouMean } from "../nearest.js";
import { optionalCount, refuseValue } from "../options.js";
import type { Backend, BackendOptions } from "./contract.js";
import type { BackendDiagnostics, BackendEntry } from "./entry.js";
import { isUnavailable, type UnavailableReason } from "./unavailable.js";

interface RegisteredBackend {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<BackendEntry>;
}

/** Best first: `auto` chooses the first that can run on this machine. */
const BACKENDS: readonly RegisteredBackend[] = [
  {
    name: "hip",
    summary: "AMD GPUs through HIP",
    load: async () => (await import("./gpu/entry.js")).gpuEntry("hip"),
  },
  {
    name: "cuda",
    summary: "NVIDIA GPUs through the CUDA driver",
    load: async () => (await import("./gpu/entry.js")).gpuEntry("cuda"),
  },
  {
    name: "cpu",
    summary: "C++ kernels for x86-64 and ARM64",
    load: async () => (await import("./cpu/entry.js")).cpuEntry,
  },
  {
    name: "reference",
    summary: "plain TypeScript, every operation; exact, slow, runs everywhere",
    load: async () => (await import("./reference/entry.js")).referenceEntry,
  },
];

/** Chooses the best backend that can run on this machine. */
export const AUTO_BACKEND = "auto";
const MAX_THREADS = 1024;

/** The names that the option `backend` accepts besides `auto`, best first. */
export function backendNames(): readonly string[] {
  return BACKENDS.map(({ name }) => name);
}

/** A backend as `rocmforge doctor` reports it. */
export interface BackendReport {
  readonly name: string;
  readonly summary: string;
  /** Absent if the backend can run. */
  readonly unavailable?: UnavailableReason;
  /** Present if `auto` would choose this backend and fail with the same error as requesting it by name. */
  readonly stopsAuto?: true;
  readonly diagnostics?: BackendDiagnostics;
}

/** Reports every backend and whether it can run on this machine, best first. */
export function detectBackends(): Promise<readonly BackendReport[]> {
  return Promise.all(
    BACKENDS.map(async ({ name, summary, load }) => {
      const entry = await load();
      const found = await entry.unavailableReason();
      if (found !== undefined) return { name, summary, unavailable: { reason: found.reason, remedy: found.remedy } };
      try {
        const diagnostics = await entry.diagnostics?.();
        return { name, summary, ...(diagnostics === undefined ? {} : { diagnostics }) };
      } catch (error) {
        // A setting that is wrong for one backend does not concern the others, but `auto` does not skip it.
        return { name, summary, unavailable: reasonOf(error), stopsAuto: true as const };
      }
    }),
  );
}

function reasonOf(error: unknown): UnavailableReason {
  if (error instanceof GpuError)
    return { reason: String(error.details["reason"]), remedy: String(error.details["remedy"]) };
  return { reason: String(error), remedy: "correct the setting" };
}

/** Reports every GPU driver with its devices, usable or not, for `rocmforge devices`. */
export async function detectDevices() {
  return await (await import("./gpu/entry.js")).detectDrivers();
}

/** Examines the cache of compiled kernels, which may be shared by several cards, for `rocmforge doctor`. */
export async function examineKernelCache() {
  return (await import("./gpu/kernels/kernel-cache-diagnostics.js")).examineKernelFolder();
}

/** The kernel cache, and the files in it that no process can use or has used for a long time. */
export type KernelCacheReport = Awaited<ReturnType<typeof examineKernelCache>>;

/** A GPU driver with its devices, usable or not. */
export type DeviceReport = Awaited<ReturnType<typeof detectDevices>>[number];

/** Opens a backend by name, or the best one for `auto`, and waits until its device is ready. */
export async function createBackend(name: string, options: BackendOptions = {}): Promise<Backend> {
  const backend = await startBackend(name, options);
  try {
    await backend.ready?.();
    return backend;
  } catch (error) {
    await backend[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Starts the driver that a backend of this name needs, in the background; resolves when the start is under way. For
 * `auto` it is the first driver of this machine.
 */
export async function startDriver(name: string): Promise<void> {
  for (const backend of BACKENDS) {
    if (name !== AUTO_BACKEND && name !== backend.name) continue;
    const entry = await backend.load();
    if (await entry.startDriver?.()) return;
  }
}

/** Like `createBackend`, but returns while the device is still starting, so that plans can be built meanwhile. */
export async function startBackend(name: string, options: BackendOptions = {}): Promise<Backend> {
  if (typeof name !== "string") refuseValue("backend", "name", "text", name);
  if (name === AUTO_BACKEND) return await startBest(options);
  const registered = BACKENDS.find((candidate) => candidate.name === name);
  if (registered === undefined) throw unknownBackend(name);
  const entry = await registered.load();
  const opened = await entry.open(options, openOracle);
  if (isUnavailable(opened)) throw entry.unavailableError(opened);
  return opened;
}

/** Warns about a backend that should work and does not, because it would be many times faster than the next one. */
async function startBest(options: BackendOptions): Promise<Backend> {
  for (const { name, load } of BACKENDS) {
    const entry = await load();
    const opened = await entry.open(entry.takesThreads ? options : withoutThreads(options), openOracle);
    if (!isUnavailable(opened)) return opened;
    if (!opened.expected)
      warnOnce(
        `the ${name} backend cannot run here: ${opened.reason}; ${opened.remedy}. Continuing with a slower one.`,
      );
  }
  throw new TypeError("the reference backend runs everywhere");
}

/** Opens what computes on the CPU; plain TypeScript would take minutes for a layer of a large model. */
async function openOracle(): Promise<Backend> {
  const { cpuEntry } = await import("./cpu/entry.js");
  const opened = await cpuEntry.open({});
  if (isUnavailable(opened)) throw cpuEntry.unavailableError(opened);
  return opened;
}

/** With `auto`, a number of threads applies only if the CPU computes. */
function withoutThreads({ threads, ...rest }: BackendOptions): BackendOptions {
  optionalCount("backend", "threads", threads, 1, MAX_THREADS);
  return rest;
}

const warned = new Set<string>();

function warnOnce(message: string): void {
  if (warned.has(message)) return;
  warned.add(message);
  process.emitWarning(message, { type: "RocmForgeWarning", code: "ROCMFORGE_FALLBACK" });
}

function unknownBackend(name: string): BackendError {
  const available = [AUTO_BACKEND, ...backendNames()];
  const guess = didYouMean(name, available);
  return new BackendError(
    "BACKEND_UNKNOWN",
    `[backend] expected one of ${available.join(", ")}, found "${name}"${guess === "" ? "" : `;${guess}`}`,
    { details: { backend: name, available } },
  );
}
