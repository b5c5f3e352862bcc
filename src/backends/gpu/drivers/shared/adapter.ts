// What differs between HIP and CUDA about a device: making it current, instantiating graphs, dependent launches.

import type { DriverKind, GpuProperties, KernelHandle, LaunchShape } from "./driver.js";
import type { ErrorWords } from "./gpu-error.js";
import type { DriverCalls } from "./calls.js";
import type { BoundCalls } from "./ffi.js";

/** The parts of a device that each driver implements itself; `NativeDevice` implements the rest over `DriverCalls`. */
export interface DeviceAdapter {
  readonly kind: DriverKind;
  readonly bound: BoundCalls<DriverCalls>;
  readonly properties: GpuProperties;
  readonly registersReadOnly: boolean;
  readonly registerFlags: number;
  /** Whether a pool thread that is not bound to the device fails, instead of loading code onto another device. */
  readonly loadsInBackground: boolean;
  words(number: number): ErrorWords;
  /** Resolves when the device can be used without blocking this thread; absent if that is always so. Never rejects. */
  whenReady?(): Promise<void>;
  /** The device's actual memory, if the driver's own figures are unreliable. */
  memory?(reported: { readonly totalBytes: number; readonly freeBytes: number }): {
    readonly totalBytes: number;
    readonly freeBytes: number;
  };
  /** Makes the device current for this thread, unless it is already. */
  makeCurrent(): void;
  /** Like `makeCurrent`, but returns false if that fails, as it does for a lost device. */
  tryMakeCurrent(): boolean;
  /** Makes the device current on one free thread of Node's pool. */
  bindBackgroundThread(): Promise<number>;
  instantiate(out: bigint, recording: bigint): number;
  readonly instantiateSymbol: string;
  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): number;
  readonly allowSharedSymbol: string;
  /** A launch that may overlap its predecessor; absent if the device does not support that. */
  launchDependent?(kernel: bigint, shape: LaunchShape, parameters: bigint, stream: bigint): number;
  /** Releases the device, which is not used afterwards. */
  release(): void;
}
