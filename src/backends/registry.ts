// Which backends there are. The doors choose by name; a backend's code is loaded only when it is chosen.

import { BackendError, GpuError } from "../errors.js";
import { didYouMean } from "../nearest.js";
import { optionalCount, optionText, refuseValue } from "../options.js";
import type { Backend, BackendOptions } from "./contract.js";
import { type MissingBackend, unavailableBackend } from "./unavailable.js";

interface BackendModule {
  createBackend(options: BackendOptions): Backend | Promise<Backend> | Obstacle;
}

interface BackendEntry {
  readonly name: string;
  readonly summary: string;
  /** Why it cannot run on this machine, or undefined when it can. */
  readonly obstacle: () => Promise<Obstacle | undefined>;
  readonly load: () => Promise<BackendModule>;
  /** How it would run here, for `doctor`; asked only when it can. */
  readonly facts?: () => Promise<BackendFacts>;
}

interface Obstacle extends MissingBackend {
  /** Not something that is wrong with this machine or this install: `auto` goes on without a word. */
  readonly expected: boolean;
}

/** Best first: `auto` takes the first that can run here. */
const BACKENDS: readonly BackendEntry[] = [
  {
    name: "hip",
    summary: "AMD GPUs through HIP",
    obstacle: () => gpuObstacle("hip"),
    load: () => import("./gpu/hip-backend.js"),
    facts: async () => (await import("./gpu/diagnostics.js")).gpuFacts("hip"),
  },
  {
    name: "cuda",
    summary: "NVIDIA GPUs through the CUDA driver",
    obstacle: () => gpuObstacle("cuda"),
    load: () => import("./gpu/cuda-backend.js"),
    facts: async () => (await import("./gpu/diagnostics.js")).gpuFacts("cuda"),
  },
  {
    name: "cpu",
    summary: "C++ kernels for x86-64 and ARM64",
    obstacle: async () => {
      const { loadAddon } = await import("./cpu/addon.js");
      const loaded = loadAddon();
      return "reason" in loaded ? { ...loaded, expected: false } : undefined;
    },
    load: () => import("./cpu/backend.js"),
    facts: async () => (await import("./cpu/diagnostics.js")).cpuFacts(),
  },
  {
    name: "reference",
    summary: "plain TypeScript, every operation; exact, slow, runs everywhere",
    obstacle: async () => undefined,
    load: () => import("./reference/backend.js"),
  },
];

const GPU_BACKENDS = ["hip", "cuda"] as const;
type GpuBackendName = (typeof GPU_BACKENDS)[number];

/** A driver with what it drives, for people. */
export interface GpuReport {
  readonly backend: GpuBackendName;
  /** Absent where there is no driver that starts. */
  readonly driver?: { readonly version: string; readonly library: string };
  /** Name, version and file of the run-time compiler. */
  readonly compiler?: string;
  readonly devices: readonly {
    readonly index: number;
    readonly name: string;
    readonly architecture: string;
    readonly totalBytes: number;
    readonly multiprocessors: number;
    readonly waveSize: number;
    readonly integrated: boolean;
  }[];
  /** The device that is taken where nobody asks for another, and why. */
  readonly choice?: { readonly index: number; readonly because: string };
  /** Why the devices cannot be used, if they cannot. */
  readonly unavailable?: MissingBackend;
}

async function gpuObstacle(kind: GpuBackendName): Promise<Obstacle | undefined> {
  const found = await startGpu(kind);
  return found ?? (await import("./gpu/diagnostics.js")).gpuObstacle(kind);
}

/** Starts the driver, if there is one to start; what is wrong with it is told by whoever uses it. */
async function startGpu(kind: GpuBackendName): Promise<Obstacle | undefined> {
  const absent = (await import("./gpu/drivers/shared/probe.js")).absentDriver(kind);
  if (absent !== undefined) return absent;
  const start = await importFromGpu(() => import("./gpu/drivers/early-start.js"));
  if ("expected" in start) return start;
  const started = start.startDriver(kind);
  // The backend's code comes meanwhile; whoever uses it sees what is wrong with it.
  const code = kind === "hip" ? import("./gpu/hip-backend.js") : import("./gpu/cuda-backend.js");
  await Promise.all([started, code.catch(() => {})]);
  return undefined;
}

/** What there is of GPUs, usable or not. */
export async function surveyDevices(): Promise<readonly GpuReport[]> {
  const survey = await importFromGpu(() => import("./gpu/diagnostics.js"));
  if ("expected" in survey) return GPU_BACKENDS.map((backend) => ({ backend, devices: [], unavailable: survey }));
  return GPU_BACKENDS.map((kind) => survey.surveyDriver(kind));
}

/** Drivers are called through Koffi, which has no binary for some platforms. */
async function importFromGpu<Module extends object>(load: () => Promise<Module>) {
  try {
    return await load();
  } catch (error) {
    const reason = `libraries cannot be called from here: ${error instanceof Error ? error.message : String(error)}`;
    const { BUNDLER_ADVICE, isBundled } = await import("../package-files.js");
    if (isBundled()) return { reason, remedy: BUNDLER_ADVICE, expected: false } satisfies Obstacle;
    return {
      reason,
      remedy: `${optionText("backend", "cpu")} runs on this machine's processor`,
      expected: true,
    } satisfies Obstacle;
  }
}

/** Takes the best backend this machine has. */
export const AUTO_BACKEND = "auto";
const MAX_THREADS = 1024;

export function backendNames(): readonly string[] {
  return BACKENDS.map(({ name }) => name);
}

/** By names in camel case, for people and programs alike. */
export type BackendFacts = Readonly<Record<string, string | number | boolean | readonly string[]>>;

export interface BackendReport {
  readonly name: string;
  readonly summary: string;
  /** Absent where it can run. */
  readonly unavailable?: { readonly reason: string; readonly remedy: string };
  /** `auto` takes it for usable and is then refused, as whoever asks for it by name is. */
  readonly stopsAuto?: true;
  readonly facts?: BackendFacts;
}

/** Every backend with whether it can run here, best first. */
export function surveyBackends(): Promise<readonly BackendReport[]> {
  return Promise.all(
    BACKENDS.map(async ({ name, summary, obstacle, facts }) => {
      const found = await obstacle();
      if (found !== undefined) return { name, summary, unavailable: { reason: found.reason, remedy: found.remedy } };
      try {
        return { name, summary, ...(facts === undefined ? {} : { facts: await facts() }) };
      } catch (error) {
        // A setting that is wrong for one backend says nothing of the others; but `auto` does not go past it.
        return { name, summary, unavailable: whyRefused(error), stopsAuto: true as const };
      }
    }),
  );
}

function whyRefused(error: unknown): MissingBackend {
  if (error instanceof GpuError)
    return { reason: String(error.details["reason"]), remedy: String(error.details["remedy"]) };
  return { reason: String(error), remedy: "correct the setting" };
}

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
 * Starts the driver that a backend of this name will want, on a thread of its own: resolves when it is at work, which may be
 * long before it is done. For `auto` it is the first that is there.
 */
export async function startDriver(name: string): Promise<void> {
  const { absentDriver } = await import("./gpu/drivers/shared/probe.js");
  const kinds = GPU_BACKENDS.filter(
    (kind) => (name === kind || name === AUTO_BACKEND) && absentDriver(kind) === undefined,
  );
  if (kinds.length === 0) return;
  const start = await importFromGpu(() => import("./gpu/drivers/early-start.js"));
  if (!("expected" in start)) kinds.find((kind) => start.startDriver(kind) !== undefined);
}

/** The same for those who make plans while the device is still being opened: it can be used when `ready` says so. */
export async function startBackend(name: string, options: BackendOptions = {}): Promise<Backend> {
  if (typeof name !== "string") refuseValue("backend", "name", "text", name);
  if (name === AUTO_BACKEND) return await createBest(options);
  const entry = BACKENDS.find((candidate) => candidate.name === name);
  if (entry === undefined) throw unknownBackend(name);
  const found = await open(entry, options);
  if (!("expected" in found)) return found;
  throw isGpu(name)
    ? (await import("./gpu/drivers/shared/gpu-error.js")).obstacleError(name, found)
    : unavailableBackend(name, found);
}

/** Going past a backend that ought to work is said aloud: it would be many times faster. */
async function createBest(options: BackendOptions): Promise<Backend> {
  for (const entry of BACKENDS) {
    const found = await open(entry, isGpu(entry.name) ? withoutThreads(options) : options);
    if (!("expected" in found)) return found;
    if (!found.expected)
      warnOnce(
        `the ${entry.name} backend cannot run here: ${found.reason}; ${found.remedy}. Going on with a slower one.`,
      );
  }
  throw new TypeError("reference has no obstacle");
}

function isGpu(name: string): name is GpuBackendName {
  return (GPU_BACKENDS as readonly string[]).includes(name);
}

/** Whoever leaves the choice to us and says how many threads it may take means the case that the CPU computes. */
function withoutThreads({ threads, ...rest }: BackendOptions): BackendOptions {
  optionalCount("backend", "threads", threads, 1, MAX_THREADS);
  return rest;
}

async function open({ name, obstacle, load }: BackendEntry, options: BackendOptions): Promise<Backend | Obstacle> {
  // A GPU backend looks for its driver anyway, and tells.
  const found = await (isGpu(name) ? startGpu(name) : obstacle());
  return found ?? (await (await load()).createBackend(options));
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
