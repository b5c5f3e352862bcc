// The GPU backend on the emulated HIP device, at either wave size in one process: each size has a copy of the library,
// which reads its settings when it is first called. Buffers get memory of their own, so that the emulator sees their ends.

import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BackendOptions } from "../../src/backends/contract.js";
import { type GpuBackend, openGpuBackend } from "../../src/backends/gpu/backend.js";
import { detectHip, type DetectedHip } from "../../src/backends/gpu/drivers/hip/detect.js";
import { isUnavailableDriver } from "../../src/backends/gpu/drivers/shared/driver-library.js";
import { bindCalls, type NativeCall } from "../../src/backends/gpu/drivers/shared/ffi.js";
import { emulatorLibrary, type EmulatorSettings, settingVariables } from "./emulator/build.js";

export type WaveSize = 32 | 64;

/** Kernels compiled for the emulator, kept from run to run: they are named by what they were compiled from. */
const KERNEL_CACHE = fileURLToPath(new URL("../../.cache/emulated-kernels/", import.meta.url));

const opened = new Map<string, DetectedHip>();

/** The emulated runtime with these settings; the first asker for a name decides. */
export function emulatedHip(name: string, settings: EmulatorSettings): DetectedHip {
  const known = opened.get(name);
  if (known !== undefined) return known;
  selectEmulated(name, settings);
  const found = detectHip();
  if (isUnavailableDriver(found)) throw new Error(`${found.reason}; ${found.remedy}`);
  opened.set(name, found);
  return found;
}

/** Other settings for a library that is open already, while no device of it is: its kernels need not be compiled anew. */
export function resetEmulated({ driver }: DetectedHip, settings: EmulatorSettings): void {
  Object.assign(process.env, settingVariables(settings));
  const bound = bindCalls<{ readonly reset: NativeCall<[]> }>(driver.loaded, { reset: "void emulatorReset()" });
  if ("lacking" in bound) throw new TypeError("this is not the emulated runtime");
  bound.calls.reset();
}

/** From here on the backend `hip` is the emulated runtime with these settings, where it has not met that name before. */
export function selectEmulated(name: string, settings: EmulatorSettings): string {
  const library = libraryCopy(name);
  Object.assign(process.env, settingVariables(settings), {
    ROCMFORGE_HIP_LIBRARY: library,
    ROCMFORGE_KERNEL_CACHE: KERNEL_CACHE,
  });
  process.env["ROCMFORGE_GPU_SLABS"] ??= "off";
  // Each kernel takes the host's compiler seconds.
  process.env["ROCMFORGE_GPU_PREWARM"] ??= "off";
  process.env["ROCMFORGE_GPU_TUNE"] ??= "off";
  return library;
}

export function openEmulated(waveSize: WaveSize, backendOptions: BackendOptions = {}): GpuBackend {
  return openGpuBackend({ ...emulatedHip(`wave-${waveSize}`, { waveSize }), name: "hip", backendOptions });
}

/** The loader takes files of one name for one library, so every set of settings needs a file. */
export function libraryCopy(name: string): string {
  const library = emulatorLibrary();
  const copy = join(dirname(library), `${name}-${statSync(library).ino}-${Math.trunc(statSync(library).mtimeMs)}.so`);
  if (existsSync(copy)) return copy;
  mkdirSync(dirname(copy), { recursive: true });
  const partial = `${copy}.${process.pid}`;
  copyFileSync(library, partial);
  renameSync(partial, copy);
  return copy;
}
