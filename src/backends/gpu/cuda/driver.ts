// NVIDIA's driver: found, started and asked for its devices, or the reason why not. Starting it again costs nothing.

import { readFileSync } from "node:fs";
import type { GpuDevice, GpuDriver, GpuProperties } from "../driver.js";
import { gpuError, isNoDevice } from "../error.js";
import { NativeDevice } from "../native/device.js";
import { bindLibrary, type DriverObstacle, findLibrary, isObstacle } from "../native/driver-library.js";
import { bindCalls, inBackground, type NativeLibrary, Outputs } from "../native/ffi.js";
import { absentDriver } from "../presence.js";
import { CudaAdapter, cudaProperties, cudaWords, type StartedCuda } from "./device.js";
import { CUDA_CALLS, CUDA_LAUNCH_CALL, type CudaCalls, CUDA_LIBRARIES, CUDA_LIBRARY_VARIABLE, CUDA_OWN_CALLS } from "./ffi.js";

const WHAT = "the CUDA driver";
const INSTALL = "install NVIDIA's driver, which brings libcuda.so.1";
/** CUDA_ERROR_STUB_LIBRARY: the file that programs are linked against where there is no driver. */
const STUB_LIBRARY = 34;
/** Graphs, capture modes and everything else that is bound here. */
const OLDEST_VERSION = 11_040;

export class CudaDriver implements GpuDriver {
  readonly kind = "cuda";
  readonly library: string;
  readonly version: string;
  /** Of the CUDA that the driver is made for: 12, 13. */
  readonly major: number;
  readonly #cuda: StartedCuda;
  readonly #count: number;
  #devices: readonly GpuProperties[] | undefined;
  /** Contexts made ahead of `open`, which takes them over. */
  readonly #prepared: number[] = [];

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

  /** Makes the context, which takes a tenth of a second and more. Where that fails `open` fails too, and says why. */
  async prepare(index: number): Promise<void> {
    const { retainContext } = this.#cuda.own.calls;
    const { device } = cudaProperties(this.#cuda, index);
    const out = new Outputs(8);
    if ((await inBackground(retainContext, out.address, device)) === 0) this.#prepared.push(device);
    out.clear();
  }

  open(index: number): GpuDevice {
    try {
      return this.#open(index);
    } finally {
      // Whoever opened it holds the context by now.
      for (const device of this.#prepared.splice(0)) this.#cuda.own.calls.releaseContext(device);
    }
  }

  #open(index: number): GpuDevice {
    if (!Number.isInteger(index) || index < 0 || index >= this.#count) {
      throw gpuError({ kind: "device not found", place: "cuda", what: `there is no device ${index}, only 0 to ${this.#count - 1}` });
    }
    return new NativeDevice(new CudaAdapter(this.#cuda, index));
  }
}

export function findCudaDriver(): CudaDriver | DriverObstacle {
  const absent = absentDriver("cuda");
  if (absent !== undefined) return absent;
  const library = findLibrary({ what: WHAT, variable: CUDA_LIBRARY_VARIABLE, names: CUDA_LIBRARIES, remedy: INSTALL });
  if (isObstacle(library)) return library;
  return start(library);
}

/** Starts the driver on another thread; whoever looks for it afterwards finds it running. */
export async function startCudaDriver(): Promise<void> {
  if (absentDriver("cuda") !== undefined) return;
  const library = findLibrary({ what: WHAT, variable: CUDA_LIBRARY_VARIABLE, names: CUDA_LIBRARIES, remedy: INSTALL });
  if (isObstacle(library)) return;
  const bound = bindCalls<Pick<CudaCalls, "initialise">>(library, { initialise: CUDA_OWN_CALLS.initialise });
  if (!("lacking" in bound)) await inBackground(bound.calls.initialise, 0);
}

function start(library: NativeLibrary): CudaDriver | DriverObstacle {
  const own = bindLibrary(WHAT, library, CUDA_OWN_CALLS);
  if (isObstacle(own)) return own;
  const outputs = new Outputs(16);
  const initialised = own.calls.initialise(0);
  if (initialised === STUB_LIBRARY) return { reason: `${library.name} is a stand-in and not a driver`, remedy: INSTALL, expected: true };
  if (isNoDevice(initialised)) return noDevice();
  if (initialised !== 0) return cannotStart(own.symbols.initialise, initialised, cudaWords({ own }, initialised));
  const versionRead = own.calls.driverVersion(outputs.clear().address);
  const version = outputs.int();
  if (versionRead === 0 && version < OLDEST_VERSION) {
    return { reason: `the driver is too old: it knows CUDA ${versionText(version)}, and at least 11.4 is needed`, remedy: "update NVIDIA's driver", expected: false };
  }
  const bound = bindLibrary(WHAT, library, CUDA_CALLS);
  if (isObstacle(bound)) return bound;
  const counted = own.calls.deviceCount(outputs.clear().address);
  const count = outputs.int();
  if (isNoDevice(counted) || (counted === 0 && count === 0)) return noDevice();
  if (counted !== 0) return cannotStart(own.symbols.deviceCount, counted, cudaWords({ own }, counted));
  const launch = bindCalls(library, CUDA_LAUNCH_CALL);
  return new CudaDriver(library.name, { bound, own, ...("lacking" in launch ? {} : { launch }) }, version, count);
}

/** 12040 is 12.4. */
function versionText(number: number): string {
  return `${Math.floor(number / 1000)}.${Math.floor((number % 1000) / 10)}`;
}

function noDevice(): DriverObstacle {
  return { reason: "the CUDA driver finds no NVIDIA GPU", remedy: "--backend cpu runs on this machine's processor", expected: true };
}

function cannotStart(call: string, number: number, { name, text }: { readonly name: string; readonly text: string }): DriverObstacle {
  return {
    reason: `the CUDA driver does not start: ${call} returned ${number} (${name}${text === "" ? "" : `, "${text}"`})`,
    remedy: "start the machine anew after an update of the driver; `nvidia-smi` should list the GPU",
    expected: false,
  };
}

/** The version that people know the driver by. */
function kernelModuleText(): string {
  try {
    const version = /Kernel Module(?: for \S+)?\s+(\d[\d.]+)/.exec(readFileSync("/proc/driver/nvidia/version", "utf8"))?.[1];
    return version === undefined ? "" : ` (driver ${version})`;
  } catch {
    return "";
  }
}
