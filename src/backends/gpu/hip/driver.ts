// AMD's runtime: found and asked for its devices, or the reason why not. Asking again costs next to nothing.

import { accessSync, constants, existsSync } from "node:fs";
import type { GpuDevice, GpuDriver, GpuProperties } from "../driver.js";
import { gpuError, isNoDevice } from "../error.js";
import { NativeDevice } from "../native/device.js";
import { bindLibrary, type DriverObstacle, findLibrary, isObstacle } from "../native/driver-library.js";
import { bindCalls, inBackground, type NativeLibrary, Outputs } from "../native/ffi.js";
import { absentDriver } from "../presence.js";
import { HipAdapter, hipProperties, hipWords, type PropertyLayout, type StartedHip } from "./device.js";
import { HIP_CALLS, HIP_LIBRARIES, HIP_LIBRARY_VARIABLE, HIP_OWN_CALLS, HIP_PROPERTY_LAYOUTS, type HipCalls, type HipPropertiesCall } from "./ffi.js";

const WHAT = "the HIP runtime";
const INSTALL = `install ROCm's HIP runtime (Debian: apt-get install libamdhip64-5; AMD's packages: hip-runtime-amd), or name the library in ${HIP_LIBRARY_VARIABLE}`;
/** The kernel driver's door: HIP finds no device where it may not be opened, and does not say why. */
const DEVICE_FILE = "/dev/kfd";

export class HipDriver implements GpuDriver {
  readonly kind = "hip";
  readonly library: string;
  readonly version: string;
  /** The compiler may be in there too. */
  readonly loaded: NativeLibrary;
  readonly #hip: StartedHip;
  readonly #count: number;
  #devices: readonly GpuProperties[] | undefined;

  constructor(loaded: NativeLibrary, hip: StartedHip, versionNumber: number, count: number) {
    this.loaded = loaded;
    this.library = loaded.name;
    this.version = `HIP ${Math.floor(versionNumber / 10_000_000)}.${Math.floor(versionNumber / 100_000) % 100}.${versionNumber % 100_000}`;
    this.#hip = hip;
    this.#count = count;
  }

  devices(): readonly GpuProperties[] {
    this.#devices ??= Array.from({ length: this.#count }, (_, index) => hipProperties(this.#hip, index));
    return this.#devices;
  }

  open(index: number): GpuDevice {
    if (!Number.isInteger(index) || index < 0 || index >= this.#count) {
      throw gpuError({ kind: "device not found", place: "hip", what: `there is no device ${index}, only 0 to ${this.#count - 1}` });
    }
    return new NativeDevice(new HipAdapter(this.#hip, index));
  }
}

export function findHipDriver(): HipDriver | DriverObstacle {
  const absent = absentDriver("hip");
  if (absent !== undefined) return absent;
  const library = findLibrary({ what: WHAT, variable: HIP_LIBRARY_VARIABLE, names: HIP_LIBRARIES, remedy: INSTALL });
  if (isObstacle(library)) return library;
  return start(library);
}

/** Starts the runtime on another thread; whoever looks for it afterwards finds it running. */
export async function startHipDriver(): Promise<void> {
  if (absentDriver("hip") !== undefined) return;
  const library = findLibrary({ what: WHAT, variable: HIP_LIBRARY_VARIABLE, names: HIP_LIBRARIES, remedy: INSTALL });
  if (isObstacle(library)) return;
  const bound = bindCalls<Pick<HipCalls, "deviceCount">>(library, { deviceCount: HIP_OWN_CALLS.deviceCount });
  if ("lacking" in bound) return;
  const out = new Outputs(8);
  await inBackground(bound.calls.deviceCount, out.address);
  out.clear();
}

function start(library: NativeLibrary): HipDriver | DriverObstacle {
  const own = bindLibrary(WHAT, library, HIP_OWN_CALLS);
  if (isObstacle(own)) return own;
  const bound = bindLibrary(WHAT, library, HIP_CALLS);
  if (isObstacle(bound)) return bound;
  const layout = findLayout(library);
  if (isObstacle(layout)) return layout;
  const outputs = new Outputs(16);
  const counted = own.calls.deviceCount(outputs.clear().address);
  const count = outputs.int();
  if (isNoDevice(counted) || (counted === 0 && count === 0)) return noDevice();
  if (counted !== 0) {
    const { name, text } = hipWords({ own }, counted);
    return {
      reason: `the HIP runtime does not start: ${own.symbols.deviceCount} returned ${counted} (${name}${text === "" || text === name ? "" : `, "${text}"`})`,
      remedy: "`rocminfo` should list the GPU; see that the kernel's amdgpu driver and ROCm are of versions that go together",
      expected: false,
    };
  }
  const version = own.calls.runtimeVersion(outputs.clear().address) === 0 ? outputs.int() : 0;
  return new HipDriver(library, { bound, own, layout }, version, count);
}

function findLayout(library: NativeLibrary): PropertyLayout | DriverObstacle {
  for (const { prototypes, ...layout } of HIP_PROPERTY_LAYOUTS) {
    const call = bindCalls<HipPropertiesCall>(library, prototypes);
    if (!("lacking" in call)) return { call, ...layout };
  }
  return {
    reason: `${library.name} is of the wrong version for this package: it has no hipGetDeviceProperties`,
    remedy: `install a newer version of ${WHAT}`,
    expected: false,
  };
}

/** A card that its user may not open is worth a word; no card is not. */
function noDevice(): DriverObstacle {
  if (existsSync(DEVICE_FILE) && !mayOpen(DEVICE_FILE)) {
    return {
      reason: `there is an AMD GPU, but this user may not open ${DEVICE_FILE}`,
      remedy: "add the user to the groups render and video (sudo usermod -aG render,video USER) and log in anew",
      expected: false,
    };
  }
  return { reason: "the HIP runtime finds no AMD GPU", remedy: "--backend cpu runs on this machine's processor", expected: true };
}

function mayOpen(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
