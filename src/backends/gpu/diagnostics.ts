// Drivers, compilers and devices of this machine, for `rocmforge devices`, `doctor` and the registry, with reason and
// remedy for those that cannot be used. No device is opened.

import { GpuError } from "../../errors.js";
import type { BackendDiagnostics } from "../entry.js";
import type { UnavailableReason } from "../unavailable.js";
import type { DriverKind, GpuDriver, GpuProperties } from "./drivers/shared/driver.js";
import { findCudaCompiler } from "./drivers/cuda/compiler.js";
import { findCudaDriver } from "./drivers/cuda/driver.js";
import { areKernelsChecked, isChecked } from "./drivers/shared/checks.js";
import { chooseDevice } from "./drivers/device-selection.js";
import { unavailableDriverError } from "./drivers/shared/gpu-error.js";
import { findHipCompiler } from "./drivers/hip/compiler.js";
import { findHipDriver } from "./drivers/hip/driver.js";
import { DeviceRecord } from "./kernels/device-record.js";
import { kernelCacheFolder } from "../cache-folder.js";
import type { NativeCompiler } from "./drivers/shared/compiler.js";
import { type UnavailableDriver, isUnavailableDriver } from "./drivers/shared/driver-library.js";

/** A GPU driver with its devices, usable or not, as `rocmforge devices` prints it. */
export interface DriverReport {
  /** The backend that uses this driver. */
  readonly backend: DriverKind;
  /** Absent if no driver was found, or if it failed to start. */
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
    /** Kernels that were compared with a CPU on this device before their first use; absent if none was. */
    readonly checkedKernels?: {
      readonly passed: number;
      /** Modules that computed wrong results and are not used: file and defines. */
      readonly failed: readonly string[];
    };
  }[];
  /** The device that is used by default, and why. */
  readonly choice?: { readonly index: number; readonly because: string };
  /** Why the devices cannot be used; absent if they can. */
  readonly unavailable?: UnavailableReason;
}

interface Detected {
  readonly driver: GpuDriver;
  readonly compiler: NativeCompiler | UnavailableDriver;
}

/** Finds a driver, then the run-time compiler that belongs to it. */
const DETECTORS: Readonly<Record<DriverKind, () => Detected | UnavailableDriver>> = {
  hip: () => {
    const driver = findHipDriver();
    return isUnavailableDriver(driver) ? driver : { driver, compiler: findHipCompiler(driver) };
  },
  cuda: () => {
    const driver = findCudaDriver();
    return isUnavailableDriver(driver) ? driver : { driver, compiler: findCudaCompiler(driver) };
  },
};

/** Why the backend on this driver cannot run on this machine; undefined if it can. */
export function unavailableDriver(kind: DriverKind): UnavailableDriver | undefined {
  const found = DETECTORS[kind]();
  if (isUnavailableDriver(found)) return found;
  return isUnavailableDriver(found.compiler) ? found.compiler : undefined;
}

/** Reports a driver, its compiler and its devices. */
export function detectDriver(kind: DriverKind): DriverReport {
  const found = DETECTORS[kind]();
  if (isUnavailableDriver(found)) return { backend: kind, devices: [], unavailable: found };
  const { driver, compiler } = found;
  const { version, library } = driver;
  const rest = isUnavailableDriver(compiler) ? { unavailable: compiler } : { compiler: compiler.summary };
  try {
    const devices = driver.devices();
    const { properties, because } = chooseDevice(kind, devices, undefined);
    return {
      backend: kind,
      driver: { version, library },
      devices: isUnavailableDriver(compiler) ? devices : devices.map((device) => withRecord(driver, compiler, device)),
      choice: { index: properties.index, because },
      ...rest,
    };
  } catch (error) {
    if (!(error instanceof GpuError)) throw error;
    return {
      backend: kind,
      driver: { version, library },
      devices: [],
      unavailable: { reason: String(error.details["reason"]), remedy: String(error.details["remedy"]) },
    };
  }
}

/** The device with what its record says about kernels. */
function withRecord(
  { kind, version }: GpuDriver,
  { identity }: NativeCompiler,
  device: GpuProperties,
): DriverReport["devices"][number] {
  const { modules } = new DeviceRecord({ kind, device, driver: version, compiler: identity }).read();
  const failed = Object.keys(modules).filter((name) => modules[name] === "failed");
  const passed = Object.keys(modules).length - failed.length;
  return passed + failed.length === 0
    ? device
    : { ...device, checkedKernels: { passed, failed: failed.map((name) => name.trim()) } };
}

/** How the backend would run on this driver's default device; throws if that cannot be used. */
export function driverDiagnostics(kind: DriverKind): BackendDiagnostics {
  const { driver, compiler, devices, choice, unavailable } = detectDriver(kind);
  // A driver was detected, but none of its devices can be used.
  if (unavailable !== undefined) throw unavailableDriverError(kind, unavailable);
  return {
    ...(driver === undefined ? {} : { driver: `${driver.version} (${driver.library})` }),
    ...(compiler === undefined ? {} : { compiler }),
    devices: devices.map(({ index, name, architecture }) => `${index} ${name} (${architecture})`),
    ...(choice === undefined ? {} : { takes: `${choice.index}, ${choice.because}` }),
    checks: checksText(kind),
    kernelCache: kernelCacheFolder(),
  };
}

function checksText(kind: DriverKind): string {
  const checked = [
    ...(areKernelsChecked(kind) ? ["kernels"] : []),
    ...(isChecked(kind) ? ["graphs", "BLAS matmuls"] : []),
  ];
  return checked.length === 0 ? "none" : `${checked.join(", ")} before their first use`;
}
