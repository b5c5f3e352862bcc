// The parts of a device that are specific to CUDA: properties, context, graphs, and launches that overlap their
// predecessor.

import type { GpuProperties, KernelHandle, LaunchShape } from "../shared/driver.js";
import { type ErrorWords, failedCall, gpuError, type GpuErrorKind } from "../shared/gpu-error.js";
import type { DeviceAdapter } from "../shared/adapter.js";
import type { DriverCalls } from "../shared/calls.js";
import { addressOf, type BoundCalls, inBackground, Outputs, textAt } from "../shared/ffi.js";
import type { CudaContext } from "./context.js";
import type { CudaCalls, CudaLaunchCall } from "./ffi.js";
import { registersReadOnlyPages } from "./read-only-pages.js";

// Numbers of CUdevice_attribute.
const WARP_SIZE = 10;
const MULTIPROCESSOR_COUNT = 16;
const INTEGRATED = 18;
const COMPUTE_CAPABILITY_MAJOR = 75;
const COMPUTE_CAPABILITY_MINOR = 76;
const MAX_SHARED_BYTES_WHEN_ASKED = 97;

/** CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
const MAX_DYNAMIC_SHARED_BYTES = 8;
/**
 * CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY: the pages are registered for the contexts of all threads.
 */
const REGISTER_READ_ONLY = 0x01 | 0x08;
const NAME_BYTES = 256;
/** Twice the number of threads that Node's pool has by default. */
const FIRST_BINDINGS = 8;
/** From this compute capability on, a kernel can start while its predecessor drains. */
const DEPENDENT_LAUNCH_MAJOR = 9;

/** The driver's functions once it has started. */
export interface StartedCuda {
  readonly bound: BoundCalls<DriverCalls>;
  readonly own: BoundCalls<CudaCalls>;
  /** Absent in drivers that are too old for it. */
  readonly launch?: BoundCalls<CudaLaunchCall>;
}

const outputs = new Outputs(NAME_BYTES);

/** The driver's name and description of one of its error codes. */
export function cudaWords({ own: { calls } }: Pick<StartedCuda, "own">, number: number): ErrorWords {
  const read = (call: CudaCalls["errorName"]): string =>
    call(number, outputs.clear().address) === 0 ? textAt(outputs.pointer()) : "";
  return { name: read(calls.errorName) || "unknown", text: read(calls.errorText) };
}

/** Throws a `GpuError` unless the call returned 0: for calls that are made before a device is open. */
export function checkCuda(
  cuda: StartedCuda,
  call: keyof CudaCalls,
  number: number,
  purpose: GpuErrorKind = "initialisation",
): void {
  if (number === 0) return;
  throw failedCall({
    driver: "cuda",
    place: "cuda",
    call: cuda.own.symbols[call],
    number,
    words: cudaWords(cuda, number),
    purpose,
  });
}

/** Reads a device's properties. Throws if its architecture or warp size is not one that the kernels support. */
export function cudaProperties(cuda: StartedCuda, index: number): GpuProperties & { readonly device: number } {
  const { calls } = cuda.own;
  checkCuda(cuda, "device", calls.device(outputs.clear().address, index));
  const device = outputs.int();
  checkCuda(cuda, "deviceName", calls.deviceName(outputs.clear().address, NAME_BYTES - 1, device));
  const name = outputs.text(0, NAME_BYTES);
  checkCuda(cuda, "totalMemory", calls.totalMemory(outputs.clear().address, device));
  const totalBytes = outputs.size();
  const attribute = (number: number): number => {
    checkCuda(cuda, "attribute", calls.attribute(outputs.clear().address, number, device));
    return outputs.int();
  };
  const waveSize = attribute(WARP_SIZE);
  if (waveSize !== 32) {
    throw gpuError({
      kind: "initialisation",
      place: `cuda device ${index}`,
      what: `this card is not supported: NVIDIA's warps have 32 threads, but the driver reports ${waveSize}`,
      remedy: "choose another device (`device`), or install a newer version of this package",
      details: { driver: "cuda", call: cuda.own.symbols.attribute, number: 0, device: index },
    });
  }
  return {
    index,
    device,
    name,
    architecture: `sm_${attribute(COMPUTE_CAPABILITY_MAJOR)}${attribute(COMPUTE_CAPABILITY_MINOR)}`,
    totalBytes,
    multiprocessors: attribute(MULTIPROCESSOR_COUNT),
    waveSize,
    sharedBytes: attribute(MAX_SHARED_BYTES_WHEN_ASKED),
    integrated: attribute(INTEGRATED) !== 0,
  };
}

type DependentLaunch = NonNullable<DeviceAdapter["launchDependent"]>;

/** The context that is current on this thread. Contexts are made current in this file only. */
let currentContext = 0n;

/** What `NativeDevice` needs from CUDA beyond the functions it shares with HIP. */
export class CudaAdapter implements DeviceAdapter {
  readonly kind = "cuda";
  readonly bound: BoundCalls<DriverCalls>;
  readonly properties: GpuProperties;
  readonly registerFlags = REGISTER_READ_ONLY;
  readonly loadsInBackground = true;
  readonly instantiateSymbol: string;
  readonly allowSharedSymbol: string;
  readonly launchDependent?: DependentLaunch;
  readonly #cuda: StartedCuda;
  readonly #context: CudaContext;
  #binding: Promise<void> | undefined;
  /** The context's handle, set once this thread has needed it. */
  #handle: bigint | undefined;
  #registersReadOnly: boolean | undefined;

  /** Takes ownership of the context, which may still be under construction. */
  constructor(cuda: StartedCuda, properties: GpuProperties, context: CudaContext) {
    this.#context = context;
    this.#cuda = cuda;
    this.bound = cuda.bound;
    this.properties = properties;
    this.instantiateSymbol = cuda.own.symbols.instantiate;
    this.allowSharedSymbol = cuda.own.symbols.functionAttribute;
    const major = Math.floor(Number(properties.architecture.slice("sm_".length)) / 10);
    if (cuda.launch !== undefined && major >= DEPENDENT_LAUNCH_MAJOR)
      this.launchDependent = dependentLaunch(cuda.launch.calls);
  }

  get registersReadOnly(): boolean {
    if (this.#registersReadOnly === undefined) {
      this.makeCurrent();
      this.#registersReadOnly = registersReadOnlyPages(this.bound.calls, REGISTER_READ_ONLY);
    }
    return this.#registersReadOnly;
  }

  async whenReady(): Promise<void> {
    if (this.#context.made === undefined) await this.#context.prepare();
    this.#binding ??= this.#bindThreads();
    await this.#binding;
  }

  words(number: number): ErrorWords {
    return cudaWords(this.#cuda, number);
  }

  makeCurrent(): void {
    if (currentContext === this.#handle) return;
    this.#handle ??= this.#context.handle;
    checkCuda(this.#cuda, "setContext", this.#cuda.own.calls.setContext(this.#handle), "internal");
    currentContext = this.#handle;
  }

  tryMakeCurrent(): boolean {
    // A context that no call has needed was never retained.
    if (this.#handle === undefined || this.#cuda.own.calls.setContext(this.#handle) !== 0) return false;
    currentContext = this.#handle;
    return true;
  }

  bindBackgroundThread(): Promise<number> {
    return inBackground(this.#cuda.own.calls.setContext, this.#context.handle);
  }

  /**
   * Binds threads of the pool before the first modules are loaded, while this thread is free: a call on a thread that is
   * not bound comes back and has to be made again. Which threads these are is not known; most of them, in practice.
   */
  async #bindThreads(): Promise<void> {
    if (this.#context.made === undefined) return;
    await Promise.all(Array.from({ length: FIRST_BINDINGS }, () => this.bindBackgroundThread()));
  }

  instantiate(out: bigint, recording: bigint): number {
    return this.#cuda.own.calls.instantiate(out, recording, 0);
  }

  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): number {
    return this.#cuda.own.calls.functionAttribute(kernel, MAX_DYNAMIC_SHARED_BYTES, sizeBytes);
  }

  release(): void {
    currentContext = 0n;
    this.#cuda.own.calls.setContext(0n);
    this.#context.release();
  }
}

// CUlaunchConfig: 0 grid x, y, z | 12 block x, y, z | 24 shared bytes | 32 stream | 40 attributes | 48 their number.
// CUlaunchAttribute: 0 which | 8 its value, 64 bytes.
const CONFIG_BYTES = 56;
const ATTRIBUTE_BYTES = 72;
const PROGRAMMATIC_STREAM_SERIALIZATION = 6;

/** One configuration for all launches, rewritten in place: the driver reads it before it returns. */
function dependentLaunch({ launchExtended }: CudaLaunchCall): DependentLaunch {
  const memory = new ArrayBuffer(CONFIG_BYTES + ATTRIBUTE_BYTES);
  const config = new DataView(memory);
  const address = addressOf(memory);
  config.setUint32(16, 1, true);
  config.setUint32(20, 1, true);
  config.setBigUint64(40, address + BigInt(CONFIG_BYTES), true);
  config.setUint32(48, 1, true);
  config.setUint32(CONFIG_BYTES, PROGRAMMATIC_STREAM_SERIALIZATION, true);
  config.setUint32(CONFIG_BYTES + 8, 1, true);
  return (kernel: bigint, { grid, threads, sharedBytes }: LaunchShape, parameters: bigint, stream: bigint): number => {
    config.setUint32(0, grid[0], true);
    config.setUint32(4, grid[1], true);
    config.setUint32(8, grid[2], true);
    config.setUint32(12, threads, true);
    config.setUint32(24, sharedBytes, true);
    config.setBigUint64(32, stream, true);
    return launchExtended(address, kernel, parameters, null);
  };
}
