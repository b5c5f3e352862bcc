// NVIDIA's driver: detects it, starts it and lists its devices, or returns why it cannot be used. Starting it again
// costs nothing.

import { readFileSync } from "node:fs";
import type { GpuDevice, GpuDriver, GpuProperties } from "../shared/driver.js";
import { callText, type ErrorWords, gpuError, isNoDevice } from "../shared/gpu-error.js";
import { NativeDevice } from "../shared/device.js";
import { bindLibrary, type UnavailableDriver, findLibrary, isUnavailableDriver } from "../shared/driver-library.js";
import { bindCalls, type NativeLibrary, Outputs } from "../shared/ffi.js";
import { absentDriver } from "../shared/probe.js";
import { CudaContext } from "./context.js";
import { CudaAdapter, cudaProperties, cudaWords, type StartedCuda } from "./device.js";
import { CUDA_CALLS, CUDA_LAUNCH_CALL, CUDA_LIBRARIES, CUDA_LIBRARY_VARIABLE, CUDA_OWN_CALLS } from "./ffi.js";

const WHAT = "the CUDA driver";
const INSTALL = "install NVIDIA's driver, which brings libcuda.so.1";
/** CUDA_ERROR_STUB_LIBRARY: the stub that programs are linked against on machines without a driver. */
const STUB_LIBRARY = 34;
/** The first version with graphs, capture modes and every other function that is bound here. */
const OLDEST_VERSION = 11_040;

/** The CUDA driver, started: lists devices and opens them. */
export class CudaDriver implements GpuDriver {
  readonly kind = "cuda";
  readonly library: string;
  readonly version: string;
  /** Major version of CUDA that the driver supports: 12, 13. */
  readonly major: number;
  readonly #cuda: StartedCuda;
  readonly #count: number;
  #devices: readonly GpuProperties[] | undefined;
  /** Contexts prepared before `open`, which takes them over. */
  readonly #prepared = new Map<number, CudaContext>();

  constructor(library: string, cuda: StartedCuda, versionNumber: number, count: number) {
    this.library = library;
    this.major = Math.floor(versionNumber / 1000);
    this.version = `CUDA ${versionText(versionNumber)}${kernelModuleText()}`;
    this.#cuda = cuda;
    this.#count = count;
  }

  devices(): readonly GpuProperties[] {
    this.#devices ??= Array.from({ length: this.#count }, (_, index) => {
      const { device: _device, ...properties } = cudaProperties(this.#cuda, index);
      return properties;
    });
    return this.#devices;
  }

  /**
   * Creates the device's context on another thread. If that fails, the first use of the device fails with the reason.
   */
  async prepare(index: number): Promise<void> {
    const context = this.#prepared.get(index) ?? new CudaContext(this.#cuda, cudaProperties(this.#cuda, index).device);
    this.#prepared.set(index, context);
    await context.prepare();
  }

  /** Returns at once, even while the device's context is being created; calls that need the context wait for it. */
  open(index: number): GpuDevice {
    if (!Number.isInteger(index) || index < 0 || index >= this.#count) {
      throw gpuError({
        kind: "device not found",
        place: "cuda",
        what: `there is no device ${index}, only 0 to ${this.#count - 1}`,
      });
    }
    const { device, ...properties } = cudaProperties(this.#cuda, index);
    const prepared = this.#prepared.get(index);
    this.#prepared.delete(index);
    const context = prepared ?? new CudaContext(this.#cuda, device);
    const adapter = new CudaAdapter(this.#cuda, properties, context);
    try {
      if (prepared === undefined) adapter.makeCurrent();
    } catch (error) {
      context.release();
      throw error;
    }
    return new NativeDevice(adapter);
  }
}

/** Loads and starts the CUDA driver, or returns why it cannot be used. */
export function findCudaDriver(): CudaDriver | UnavailableDriver {
  const absent = absentDriver("cuda");
  if (absent !== undefined) return absent;
  const library = findLibrary({ what: WHAT, variable: CUDA_LIBRARY_VARIABLE, names: CUDA_LIBRARIES, remedy: INSTALL });
  if (isUnavailableDriver(library)) return library;
  return start(library);
}

function start(library: NativeLibrary): CudaDriver | UnavailableDriver {
  const own = bindLibrary(WHAT, library, CUDA_OWN_CALLS);
  if (isUnavailableDriver(own)) return own;
  const outputs = new Outputs(16);
  const initialised = own.calls.initialise(0);
  const failed = (call: string, number: number): FailedStart => ({ call, number, words: cudaWords({ own }, number) });
  if (initialised === STUB_LIBRARY) {
    const details = detailsOf(failed(own.symbols.initialise, initialised));
    return {
      kind: "initialisation",
      reason: `${library.name} is a stub library, not a driver`,
      remedy: INSTALL,
      expected: true,
      details,
    };
  }
  if (isNoDevice(initialised)) return noDevice(failed(own.symbols.initialise, initialised));
  if (initialised !== 0) return cannotStart(failed(own.symbols.initialise, initialised));
  const versionRead = own.calls.driverVersion(outputs.clear().address);
  const version = outputs.int();
  if (versionRead === 0 && version < OLDEST_VERSION) {
    return {
      kind: "initialisation",
      reason: `the driver is too old: it supports CUDA ${versionText(version)}, and at least ${versionText(OLDEST_VERSION)} is needed`,
      remedy: "update NVIDIA's driver",
      expected: false,
      details: { call: own.symbols.driverVersion, version, oldestVersion: OLDEST_VERSION },
    };
  }
  const bound = bindLibrary(WHAT, library, CUDA_CALLS);
  if (isUnavailableDriver(bound)) return bound;
  const counted = own.calls.deviceCount(outputs.clear().address);
  const count = outputs.int();
  if (isNoDevice(counted) || (counted === 0 && count === 0)) return noDevice(failed(own.symbols.deviceCount, counted));
  if (counted !== 0) return cannotStart(failed(own.symbols.deviceCount, counted));
  const launch = bindCalls(library, CUDA_LAUNCH_CALL);
  return new CudaDriver(library.name, { bound, own, ...("lacking" in launch ? {} : { launch }) }, version, count);
}

/** 12040 is 12.4. */
function versionText(number: number): string {
  return `${Math.floor(number / 1000)}.${Math.floor((number % 1000) / 10)}`;
}

interface FailedStart {
  readonly call: string;
  readonly number: number;
  readonly words: ErrorWords;
}

function detailsOf({ call, number, words: { name } }: FailedStart): NonNullable<UnavailableDriver["details"]> {
  return { call, number, name };
}

function noDevice(failed: FailedStart): UnavailableDriver {
  const reason = "the CUDA driver finds no NVIDIA GPU";
  return {
    kind: "device not found",
    reason,
    remedy: '`backend: "cpu"` runs on this machine\'s processor',
    expected: true,
    details: detailsOf(failed),
  };
}

function cannotStart(failed: FailedStart): UnavailableDriver {
  return {
    kind: "initialisation",
    reason: `the CUDA driver failed to start: ${callText(failed.call, failed.number, failed.words)}`,
    remedy: "reboot after an update of the driver; `nvidia-smi` should list the GPU",
    expected: false,
    details: detailsOf(failed),
  };
}

/** Version of the kernel module, which is the version that users know the driver by. */
function kernelModuleText(): string {
  try {
    const version = /Kernel Module(?: for \S+)?\s+(\d[\d.]+)/.exec(
      readFileSync("/proc/driver/nvidia/version", "utf8"),
    )?.[1];
    return version === undefined ? "" : ` (driver ${version})`;
  } catch {
    return "";
  }
}
