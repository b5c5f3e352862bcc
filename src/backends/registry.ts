// Which backends there are. The doors choose by name; a backend's code is loaded only when it is chosen.

import { BackendError } from "../errors.js";
import { nearestNames } from "../nearest.js";
import { optionalCount, refuseValue } from "../options.js";
import type { Backend, BackendOptions } from "./contract.js";
import { type MissingBackend, unavailableBackend } from "./unavailable.js";

interface BackendModule {
  createBackend(options: BackendOptions): Backend | Promise<Backend>;
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
    load: () => import("./gpu/hip/backend.js"),
    facts: async () => (await import("./gpu/survey.js")).gpuFacts("hip"),
  },
  {
    name: "cuda",
    summary: "NVIDIA GPUs through the CUDA driver",
    obstacle: () => gpuObstacle("cuda"),
    load: () => import("./gpu/cuda/backend.js"),
    facts: async () => (await import("./gpu/survey.js")).gpuFacts("cuda"),
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
    facts: async () => (await import("./cpu/facts.js")).cpuFacts(),
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
  const absent = (await import("./gpu/presence.js")).absentDriver(kind);
  if (absent !== undefined) return absent;
  const survey = await importSurvey();
  if ("expected" in survey) return survey;
  // Most of the backend's code comes meanwhile; whoever uses it sees what is wrong with it.
  await Promise.all([survey.startDriver(kind), import("./gpu/backend.js").catch(() => {})]);
  return survey.gpuObstacle(kind);
}

/** What there is of GPUs, usable or not. */
export async function surveyDevices(): Promise<readonly GpuReport[]> {
  const survey = await importSurvey();
  if ("expected" in survey) return GPU_BACKENDS.map((backend) => ({ backend, devices: [], unavailable: survey }));
  return GPU_BACKENDS.map((kind) => survey.surveyDriver(kind));
}

/** Drivers are called through Koffi, which has no binary for some platforms. */
async function importSurvey() {
  try {
    return await import("./gpu/survey.js");
  } catch (error) {
    const reason = `libraries cannot be called from here: ${error instanceof Error ? error.message : String(error)}`;
    return { reason, remedy: "--backend cpu runs on this machine's processor", expected: true } satisfies Obstacle;
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
        // A setting that is wrong for one backend says nothing of the others.
        return { name, summary, unavailable: { reason: String(error), remedy: "correct the setting" } };
      }
    }),
  );
}

export async function createBackend(name: string, options: BackendOptions = {}): Promise<Backend> {
  if (typeof name !== "string") refuseValue("backend", "name", "text", name);
  if (name === AUTO_BACKEND) return await createBest(options);
  const entry = BACKENDS.find((candidate) => candidate.name === name);
  if (entry === undefined) throw unknownBackend(name);
  const found = await entry.obstacle();
  if (found === undefined) return await create(entry, options);
  throw unavailableBackend(name, found);
}

/** Going past a backend that ought to work is said aloud: it would be many times faster. */
async function createBest(options: BackendOptions): Promise<Backend> {
  for (const entry of BACKENDS) {
    const found = await entry.obstacle();
    if (found === undefined) return await create(entry, isGpu(entry.name) ? withoutThreads(options) : options);
    if (!found.expected) warnOnce(`the ${entry.name} backend cannot run here: ${found.reason}; ${found.remedy}. Going on with a slower one.`);
  }
  throw new TypeError("reference has no obstacle");
}

function isGpu(name: string): boolean {
  return (GPU_BACKENDS as readonly string[]).includes(name);
}

/** Whoever leaves the choice to us and says how many threads it may take means the case that the CPU computes. */
function withoutThreads({ threads, ...rest }: BackendOptions): BackendOptions {
  optionalCount("backend", "threads", threads, 1, MAX_THREADS);
  return rest;
}

async function create({ load }: BackendEntry, options: BackendOptions): Promise<Backend> {
  const module = await load();
  return await module.createBackend(options);
}

const warned = new Set<string>();

function warnOnce(message: string): void {
  if (warned.has(message)) return;
  warned.add(message);
  process.emitWarning(message, { type: "RocmForgeWarning", code: "ROCMFORGE_FALLBACK" });
}

function unknownBackend(name: string): BackendError {
  const available = [AUTO_BACKEND, ...backendNames()];
  const [nearest] = nearestNames(name, available, 1);
  return new BackendError(
    "BACKEND_UNKNOWN",
    `[backend] expected one of ${available.join(", ")}, found "${name}"; did you mean "${nearest}"?`,
    { details: { backend: name, available } },
  );
}
