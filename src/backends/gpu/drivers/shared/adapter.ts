// What is not the same in HIP and CUDA about a device: how it is made current, how graphs are made ready, dependent
// launches.

import type { DriverKind, GpuProperties, KernelHandle, LaunchShape } from "./driver.js";
import type { ErrorWords } from "./gpu-error.js";
import type { DriverCalls } from "./calls.js";
import type { BoundCalls } from "./ffi.js";

export interface DeviceAdapter {
  readonly kind: DriverKind;
  readonly bound: BoundCalls<DriverCalls>;
  readonly properties: GpuProperties;
  readonly registersReadOnly: boolean;
  readonly registerFlags: number;
  /** Whether a thread of Node's pool that does not know the device says so, instead of loading code to another one. */
  readonly loadsInBackground: boolean;
  words(number: number): ErrorWords;
  /** When using it takes this thread no time; absent if it never does. Never rejects. */
  whenReady?(): Promise<void>;
  /** What the device has, where the driver's own figures are not to be taken at their word. */
  memory?(reported: { readonly totalBytes: number; readonly freeBytes: number }): {
    readonly totalBytes: number;
    readonly freeBytes: number;
  };
  /** Makes the device current for this thread, unless it is. */
  makeCurrent(): void;
  /** False if that fails, as with a device that is gone. */
  tryMakeCurrent(): boolean;
  /** The same for one thread of Node's pool, whichever is free. */
  bindBackgroundThread(): Promise<number>;
  instantiate(out: bigint, recording: bigint): number;
  readonly instantiateSymbol: string;
  allowSharedBytes(kernel: KernelHandle, sizeBytes: number): number;
  readonly allowSharedSymbol: string;
  /** A launch that may overlap the one before it, where the device can do that. */
  launchDependent?(kernel: bigint, shape: LaunchShape, parameters: bigint, stream: bigint): number;
  /** Lets the device go; nothing of it is used afterwards. */
  release(): void;
}
