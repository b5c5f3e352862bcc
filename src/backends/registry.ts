// Which backends there are. The doors choose by name; a backend's code is loaded only when it is chosen.

import { BackendError } from "../errors.js";
import { nearestNames } from "../nearest.js";
import { refuseValue } from "../options.js";
import type { Backend, BackendOptions } from "./contract.js";

interface BackendModule {
  createBackend(options: BackendOptions): Backend | Promise<Backend>;
}

interface BackendEntry {
  readonly name: string;
  readonly summary: string;
  /** Why it cannot run on this machine; undefined when it can. */
  readonly unavailable: () => string | undefined;
  readonly load: () => Promise<BackendModule>;
}

/** Best first: `auto` takes the first that can run here. */
const BACKENDS: readonly BackendEntry[] = [
  planned("hip", "AMD GPUs through HIP"),
  planned("cuda", "NVIDIA GPUs through the CUDA driver"),
  planned("cpu", "C++ kernels for x86-64 and ARM64"),
  {
    name: "reference",
    summary: "plain TypeScript, every operation; exact, slow, runs everywhere",
    unavailable: () => undefined,
    load: () => import("./reference/backend.js"),
  },
];

/** Named by the design but not part of this version: asking for one is told so, never sent elsewhere. */
function planned(name: string, summary: string): BackendEntry {
  const reason = "it is not part of this version; --backend reference runs on every platform";
  return { name, summary, unavailable: () => reason, load: () => Promise.reject(new TypeError(reason)) };
}

/** Takes the best backend this machine has. */
export const AUTO_BACKEND = "auto";

export function backendNames(): readonly string[] {
  return BACKENDS.map(({ name }) => name);
}

export async function createBackend(name: string, options: BackendOptions = {}): Promise<Backend> {
  if (typeof name !== "string") refuseValue("backend", "name", "text", name);
  const entry = name === AUTO_BACKEND ? BACKENDS.find(({ unavailable }) => unavailable() === undefined) : findBackend(name);
  if (entry === undefined) throw unknownBackend(name);
  const reason = entry.unavailable();
  if (reason !== undefined) {
    throw new BackendError("BACKEND_UNAVAILABLE", `[backend] ${entry.name} cannot run here: ${reason}`, {
      details: { backend: entry.name, reason },
    });
  }
  const module = await entry.load();
  return await module.createBackend(options);
}

function findBackend(name: string): BackendEntry | undefined {
  return BACKENDS.find((entry) => entry.name === name);
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
