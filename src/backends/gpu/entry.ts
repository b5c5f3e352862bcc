// The GPU backend's entries in the registry, one for each driver. Nothing that needs Koffi is imported before a device
// file of the driver has been found, and the driver starts on another thread while the backend's code is loaded.

import { optionText } from "../../options.js";
import { BUNDLER_ADVICE, isBundled } from "../../package-files.js";
import type { Backend, BackendOptions } from "../contract.js";
import type { BackendEntry } from "../entry.js";
import { isUnavailable, type UnavailableBackend } from "../unavailable.js";
import type { DriverKind } from "./drivers/shared/driver.js";
import { unavailableDriverError } from "./drivers/shared/gpu-error.js";
import { absentDriver } from "./drivers/shared/probe.js";
import type { DriverReport } from "./diagnostics.js";

const KINDS: readonly DriverKind[] = ["hip", "cuda"];

/** The registry's entry for the GPU backend on one driver. */
export function gpuEntry(kind: DriverKind): BackendEntry {
  return {
    takesThreads: false,
    async unavailableReason() {
      return (await startAndLoad(kind)) ?? (await import("./diagnostics.js")).unavailableDriver(kind);
    },
    async open(options, openOracle) {
      return (await startAndLoad(kind)) ?? (await loadBackend(kind))(options, openOracle);
    },
    unavailableError: (found) => unavailableDriverError(kind, found),
    diagnostics: async () => (await import("./diagnostics.js")).driverDiagnostics(kind),
    startDriver: () => startDriver(kind),
  };
}

/** Reports every driver with its devices, usable or not. */
export async function detectDrivers(): Promise<readonly DriverReport[]> {
  const diagnostics = await importWithKoffi(() => import("./diagnostics.js"));
  if (isUnavailable(diagnostics)) return KINDS.map((backend) => ({ backend, devices: [], unavailable: diagnostics }));
  return KINDS.map((kind) => diagnostics.detectDriver(kind));
}

/** Starts the driver while the backend's code is loaded. Problems with the driver are reported when it is used. */
async function startAndLoad(kind: DriverKind): Promise<UnavailableBackend | undefined> {
  const absent = absentDriver(kind);
  if (absent !== undefined) return absent;
  const early = await importWithKoffi(() => import("./drivers/early-start.js"));
  if (isUnavailable(early)) return early;
  const started = early.startDriverEarly(kind);
  await Promise.all([started, loadBackend(kind).catch(() => {})]);
  return undefined;
}

async function startDriver(kind: DriverKind): Promise<boolean> {
  if (absentDriver(kind) !== undefined) return false;
  const early = await importWithKoffi(() => import("./drivers/early-start.js"));
  return !isUnavailable(early) && early.startDriverEarly(kind) !== undefined;
}

type OpenBackend = (options: BackendOptions, openOracle?: () => Promise<Backend>) => Backend | UnavailableBackend;

async function loadBackend(kind: DriverKind): Promise<OpenBackend> {
  if (kind === "hip") return (await import("./hip-backend.js")).createHipBackend;
  return (await import("./cuda-backend.js")).createCudaBackend;
}

/** Drivers are called through Koffi, which has no binary for some platforms. */
async function importWithKoffi<Module extends object>(
  load: () => Promise<Module>,
): Promise<Module | UnavailableBackend> {
  try {
    return await load();
  } catch (error) {
    const reason = `native libraries cannot be called on this platform: ${error instanceof Error ? error.message : String(error)}`;
    if (isBundled()) return { reason, remedy: BUNDLER_ADVICE, expected: false };
    return { reason, remedy: `${optionText("backend", "cpu")} runs on this machine's CPU`, expected: true };
  }
}
