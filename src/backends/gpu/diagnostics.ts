// What there is of GPUs, for `rocmforge devices`, `doctor` and the registry: drivers, compilers and devices, and for what
// cannot be used the reason and the remedy. Looks only; no device is opened.

import { GpuError } from "../../errors.js";
import type { GpuReport } from "../registry.js";
import type { DriverKind, GpuDriver } from "./drivers/shared/driver.js";
import { findCudaCompiler } from "./drivers/cuda/compiler.js";
import { findCudaDriver } from "./drivers/cuda/driver.js";
import { isChecked } from "./drivers/shared/checks.js";
import { chooseDevice } from "./drivers/device-selection.js";
import { obstacleError } from "./drivers/shared/gpu-error.js";
import { findHipCompiler } from "./drivers/hip/compiler.js";
import { findHipDriver } from "./drivers/hip/driver.js";
import { kernelCacheFolder } from "./drivers/shared/cache-folder.js";
import type { NativeCompiler } from "./drivers/shared/compiler.js";
import { type DriverObstacle, isObstacle } from "./drivers/shared/driver-library.js";

interface Found {
  readonly driver: GpuDriver;
  readonly compiler: NativeCompiler | DriverObstacle;
}

/** A driver's finder and its compiler's, with the types that belong together. */
const FINDERS: Readonly<Record<DriverKind, () => Found | DriverObstacle>> = {
  hip: () => {
    const driver = findHipDriver();
    return isObstacle(driver) ? driver : { driver, compiler: findHipCompiler(driver) };
  },
  cuda: () => {
    const driver = findCudaDriver();
    return isObstacle(driver) ? driver : { driver, compiler: findCudaCompiler(driver) };
  },
};

/** Why the backend cannot run here; undefined where it can. */
export function gpuObstacle(kind: DriverKind): DriverObstacle | undefined {
  const found = FINDERS[kind]();
  if (isObstacle(found)) return found;
  return isObstacle(found.compiler) ? found.compiler : undefined;
}

export function surveyDriver(kind: DriverKind): GpuReport {
  const found = FINDERS[kind]();
  if (isObstacle(found)) return { backend: kind, devices: [], unavailable: found };
  const { driver, compiler } = found;
  const { version, library } = driver;
  const rest = isObstacle(compiler) ? { unavailable: compiler } : { compiler: compiler.summary };
  try {
    const devices = driver.devices();
    const { properties, because } = chooseDevice(kind, devices, undefined);
    return {
      backend: kind,
      driver: { version, library },
      devices,
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

export function gpuFacts(kind: DriverKind): Readonly<Record<string, string | readonly string[]>> {
  const { driver, compiler, devices, choice, unavailable } = surveyDriver(kind);
  // Looking was enough to find a driver, and not to see that its card cannot be used.
  if (unavailable !== undefined) throw obstacleError(kind, unavailable);
  return {
    ...(driver === undefined ? {} : { driver: `${driver.version} (${driver.library})` }),
    ...(compiler === undefined ? {} : { compiler }),
    devices: devices.map(({ index, name, architecture }) => `${index} ${name} (${architecture})`),
    ...(choice === undefined ? {} : { takes: `${choice.index}, ${choice.because}` }),
    checks: isChecked(kind) ? "graphs and BLAS matmuls before their first use" : "none",
    kernelCache: kernelCacheFolder(),
  };
}
