// AMD's runtime: detects it and lists its devices, or returns why it cannot be used. Detecting it again costs next to
// nothing.

import { accessSync, constants, existsSync } from "node:fs";
import type { GpuDevice, GpuDriver, GpuProperties } from "../shared/driver.js";
import { callText, gpuError, isNoDevice } from "../shared/gpu-error.js";
import { NativeDevice } from "../shared/device.js";
import {
  bindLibrary,
  type UnavailableDriver,
  findLibrary,
  isUnavailableDriver,
  wrongVersion,
} from "../shared/driver-library.js";
import { bindCalls, type NativeLibrary, Outputs } from "../shared/ffi.js";
import { absentDriver } from "../shared/probe.js";
import { HipAdapter, hipProperties, hipWords, type PropertyLayout, type StartedHip } from "./device.js";
import {
  HIP_ADDRESS_CALL,
  HIP_CALLS,
  HIP_LIBRARY_VARIABLE,
  HIP_OWN_CALLS,
  HIP_PROPERTY_LAYOUTS,
  type HipAddressCall,
  type HipPropertiesCall,
} from "./ffi.js";
import { hipLibraries } from "./libraries.js";

const WHAT = "the HIP runtime";
const INSTALL =
  process.platform === "win32"
    ? `install AMD's graphics driver or the HIP SDK if there is an AMD GPU, or name the library in ${HIP_LIBRARY_VARIABLE}`
    : `install ROCm's HIP runtime (Debian: apt-get install libamdhip64-5; AMD's packages: hip-runtime-amd), or name the library in ${HIP_LIBRARY_VARIABLE}`;
/** From this version on, the attributes and all functions that are bound here have their present form. */
const OLDEST_VERSION = 50_000_000;
/** The kernel driver's device file: if it cannot be opened, HIP finds no device and does not report why. */
const DEVICE_FILE = "/dev/kfd";

/** The HIP runtime, started: lists devices and opens them. */
export class HipDriver implements GpuDriver {
  readonly kind = "hip";
  readonly library: string;
  readonly version: string;
  /** The runtime's library, which may also contain the compiler. */
  readonly loaded: NativeLibrary;
  readonly #hip: StartedHip;
  readonly #count: number;
  #devices: readonly GpuProperties[] | undefined;

  constructor(loaded: NativeLibrary, hip: StartedHip, versionNumber: number, count: number) {
    this.loaded = loaded;
    this.library = loaded.name;
    this.version = `HIP ${versionText(versionNumber)}`;
    this.#hip = hip;
    this.#count = count;
  }

  devices(): readonly GpuProperties[] {
    this.#devices ??= Array.from({ length: this.#count }, (_, index) => hipProperties(this.#hip, index));
    return this.#devices;
  }

  open(index: number): GpuDevice {
    if (!Number.isInteger(index) || index < 0 || index >= this.#count) {
      throw gpuError({
        kind: "device not found",
        place: "hip",
        what: `there is no device ${index}, only 0 to ${this.#count - 1}`,
      });
    }
    return new NativeDevice(new HipAdapter(this.#hip, index));
  }
}

/** Loads and starts the HIP runtime, or returns why it cannot be used. */
export function findHipDriver(): HipDriver | UnavailableDriver {
  const absent = absentDriver("hip");
  if (absent !== undefined) return absent;
  const library = findLibrary({ what: WHAT, variable: HIP_LIBRARY_VARIABLE, names: hipLibraries(), remedy: INSTALL });
  if (isUnavailableDriver(library)) return library;
  return start(library);
}

function start(library: NativeLibrary): HipDriver | UnavailableDriver {
  const own = bindLibrary(WHAT, library, HIP_OWN_CALLS);
  if (isUnavailableDriver(own)) return own;
  const bound = bindLibrary(WHAT, library, HIP_CALLS);
  if (isUnavailableDriver(bound)) return bound;
  const layout = findLayout(library);
  if (isUnavailableDriver(layout)) return layout;
  const outputs = new Outputs(16);
  const version = own.calls.runtimeVersion(outputs.clear().address) === 0 ? outputs.int() : 0;
  if (version > 0 && version < OLDEST_VERSION) return tooOld(own.symbols.runtimeVersion, version);
  const counted = own.calls.deviceCount(outputs.clear().address);
  const count = outputs.int();
  const words = hipWords({ own }, counted);
  const details = { call: own.symbols.deviceCount, number: counted, name: words.name };
  if (isNoDevice(counted) || (counted === 0 && count === 0)) return noDevice(details);
  if (counted !== 0) {
    return {
      kind: "initialisation",
      reason: `the HIP runtime failed to start: ${callText(own.symbols.deviceCount, counted, words)}`,
      remedy: "`rocminfo` should list the GPU; check that the kernel's amdgpu driver and ROCm are compatible versions",
      expected: false,
      details,
    };
  }
  const address = bindCalls<HipAddressCall>(library, HIP_ADDRESS_CALL);
  return new HipDriver(library, { bound, own, layout, ...("lacking" in address ? {} : { address }) }, version, count);
}

function findLayout(library: NativeLibrary): PropertyLayout | UnavailableDriver {
  for (const { prototypes, ...layout } of HIP_PROPERTY_LAYOUTS) {
    const call = bindCalls<HipPropertiesCall>(library, prototypes);
    if (!("lacking" in call)) return { call, ...layout };
  }
  return wrongVersion(WHAT, library, ["hipGetDeviceProperties"]);
}

/** 60443484 is 6.4.43484. */
function versionText(number: number): string {
  return `${Math.floor(number / 10_000_000)}.${Math.floor(number / 100_000) % 100}.${number % 100_000}`;
}

function tooOld(call: string, version: number): UnavailableDriver {
  return {
    kind: "initialisation",
    reason: `the HIP runtime is too old: it is ${versionText(version)}, and at least ${versionText(OLDEST_VERSION)} is needed`,
    remedy: `install a newer version of ${WHAT}`,
    expected: false,
    details: { call, version, oldestVersion: OLDEST_VERSION },
  };
}

/** A card without access permission is worth reporting; the absence of a card is not. */
function noDevice(details: NonNullable<UnavailableDriver["details"]>): UnavailableDriver {
  if (existsSync(DEVICE_FILE) && !mayOpen(DEVICE_FILE)) {
    return {
      kind: "device not found",
      reason: `there is an AMD GPU, but this user has no permission to open ${DEVICE_FILE}`,
      remedy: "add the user to the groups render and video (sudo usermod -aG render,video USER) and log in again",
      expected: false,
      details,
    };
  }
  return {
    kind: "device not found",
    reason: "the HIP runtime finds no AMD GPU",
    remedy: '`backend: "cpu"` runs on this machine\'s processor',
    expected: true,
    details,
  };
}

function mayOpen(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
