// The parts of a device that are specific to HIP: properties in either layout, the current device of a thread, and
// graphs.

import type { GpuProperties } from "../shared/driver.js";
import { type ErrorWords, failedCall, gpuError, type GpuErrorKind } from "../shared/gpu-error.js";
import type { DeviceAdapter } from "../shared/adapter.js";
import type { DriverCalls } from "../shared/calls.js";
import { type BoundCalls, inBackground, Outputs, textAt } from "../shared/ffi.js";
import type { HipAddressCall, HipCalls, HipPropertiesCall } from "./ffi.js";
import { GttWatch } from "./gtt-spill.js";
import { type MemoryAmount, memoryPools, type MemoryPools, sharedMemory } from "./shared-memory.js";

// Numbers of hipDeviceAttribute_t, the same from 5.0 on.
const INTEGRATED = 16;
const MULTIPROCESSOR_COUNT = 63;
const MAX_SHARED_BYTES = 74;
const WARP_SIZE = 87;

const NAME_BYTES = 256;
/** `gfx90a:sramecc+:xnack-` */
const ARCHITECTURE = /^(gfx[0-9a-f]+)(?::.*)?$/;

/** Where the members of `hipDeviceProp_t` are in the layout that the loaded library writes. */
export interface PropertyLayout {
  readonly call: BoundCalls<HipPropertiesCall>;
  readonly sizeBytes: number;
  readonly totalBytesOffset: number;
  readonly architectureOffset: number;
}

/** The runtime's functions once it has started. */
export interface StartedHip {
  readonly bound: BoundCalls<DriverCalls>;
  readonly own: BoundCalls<HipCalls>;
  readonly layout: PropertyLayout;
  readonly address?: BoundCalls<HipAddressCall>;
}

/** The runtime's name and description of one of its error codes. */
export function hipWords({ own: { calls } }: Pick<StartedHip, "own">, number: number): ErrorWords {
  return { name: textAt(calls.errorName(number)) || "unknown", text: textAt(calls.errorText(number)) };
}

function checkHip(hip: StartedHip, call: string, number: number, purpose: GpuErrorKind = "initialisation"): void {
  if (number === 0) return;
  throw failedCall({ driver: "hip", place: "hip", call, number, words: hipWords(hip, number), purpose });
}

/** Reads a device's properties. Throws if its architecture or wave size is not one that the kernels support. */
export function hipProperties(hip: StartedHip, index: number): GpuProperties {
  const { call, sizeBytes, totalBytesOffset, architectureOffset } = hip.layout;
  // Larger than needed: a library whose layout differs from what its symbol promises would write past the end.
  const outputs = new Outputs(4 * sizeBytes);
  checkHip(hip, call.symbols.properties, call.calls.properties(outputs.address, index));
  const name = outputs.text(0, NAME_BYTES);
  const totalBytes = Number(outputs.view.getBigUint64(totalBytesOffset, true));
  const written = outputs.text(architectureOffset, NAME_BYTES);
  const architecture = ARCHITECTURE.exec(written)?.[1];
  if (architecture === undefined)
    throw unknownCard(
      call.symbols.properties,
      index,
      `HIP reports the architecture "${written}", which is not a valid name`,
    );
  const attribute = (number: number): number => {
    checkHip(hip, hip.own.symbols.attribute, hip.own.calls.attribute(outputs.clear().address, number, index));
    return outputs.int();
  };
  const integrated = attribute(INTEGRATED) !== 0;
  const waveSize = attribute(WARP_SIZE);
  if (waveSize !== 32 && waveSize !== 64)
    throw unknownCard(hip.own.symbols.attribute, index, `a wave has 32 or 64 lanes, but HIP reports ${waveSize}`);
  return {
    index,
    name: name === "" ? architecture : name,
    architecture,
    totalBytes: integrated ? hipSharedMemory(hip, index, { totalBytes, freeBytes: 0 }).totalBytes : totalBytes,
    multiprocessors: attribute(MULTIPROCESSOR_COUNT),
    waveSize,
    sharedBytes: attribute(MAX_SHARED_BYTES),
    integrated,
  };
}

const PCI_ADDRESS_BYTES = 64;

/** The kernel driver's pools; undefined if HIP does not say where the card is, or the driver says nothing of them. */
function hipPools(hip: StartedHip, index: number): MemoryPools | undefined {
  const outputs = new Outputs(PCI_ADDRESS_BYTES);
  const isTold = hip.address?.calls.pciAddress(outputs.address, PCI_ADDRESS_BYTES, index) === 0;
  return isTold ? memoryPools(outputs.text(0, PCI_ADDRESS_BYTES)) : undefined;
}

/** The memory that an integrated GPU can use, corrected by the kernel driver's figures. */
function hipSharedMemory(hip: StartedHip, index: number, reported: MemoryAmount): MemoryAmount {
  return sharedMemory(reported, hipPools(hip, index));
}

function unknownCard(call: string, index: number, what: string): Error {
  return gpuError({
    kind: "initialisation",
    place: `hip device ${index}`,
    what: `this card is not supported: ${what}`,
    remedy: "choose another device (`device`), or install a newer version of this package",
    details: { driver: "hip", call, number: 0, device: index },
  });
}

/** The device that is current on this thread, and the library it belongs to: tests load more than one. */
const current: { calls?: HipCalls; index?: number } = {};

/** What `NativeDevice` needs from HIP beyond the functions it shares with CUDA. */
export class HipAdapter implements DeviceAdapter {
  readonly kind = "hip";
  readonly bound: BoundCalls<DriverCalls>;
  readonly properties: GpuProperties;
  // HIP locks the pages of a mapping one by one, at great cost: files are read into pinned memory instead.
  readonly registersReadOnly = false;
  readonly registerFlags = 0;
  readonly loadsInBackground = false;
  readonly instantiateSymbol: string;
  readonly allowSharedSymbol = "hipFuncSetAttribute";
  readonly #hip: StartedHip;
  readonly #spill: GttWatch;

  constructor(hip: StartedHip, index: number) {
    this.#hip = hip;
    this.bound = hip.bound;
    this.properties = hipProperties(hip, index);
    this.#spill = new GttWatch(() => hipPools(hip, index));
    this.instantiateSymbol = hip.own.symbols.instantiate;
    this.makeCurrent();
  }

  words(number: number): ErrorWords {
    return hipWords(this.#hip, number);
  }

  makeCurrent(): void {
    const { calls, symbols } = this.#hip.own;
    const { index } = this.properties;
    if (current.calls === calls && current.index === index) return;
    checkHip(this.#hip, symbols.setDevice, calls.setDevice(index), "internal");
    current.calls = calls;
    current.index = index;
  }

  memory(reported: MemoryAmount): MemoryAmount {
    const { index, integrated } = this.properties;
    if (integrated) return hipSharedMemory(this.#hip, index, reported);
    const notice = this.#spill.look();
    if (notice !== undefined) process.emitWarning(notice, { type: "RocmForgeWarning", code: "ROCMFORGE_GTT" });
    return { ...reported, freeBytes: Math.min(reported.freeBytes, reported.totalBytes) };
  }

  tryMakeCurrent(): boolean {
    const { calls } = this.#hip.own;
    const { index } = this.properties;
    if (calls.setDevice(index) !== 0) return false;
    current.calls = calls;
    current.index = index;
    return true;
  }

  bindBackgroundThread(): Promise<number> {
    return inBackground(this.#hip.own.calls.setDevice, this.properties.index);
  }

  instantiate(out: bigint, recording: bigint): number {
    return this.#hip.own.calls.instantiate(out, recording, null, null, 0);
  }

  /** HIP needs no permission for large shared memory. */
  allowSharedBytes(): number {
    return 0;
  }

  release(): void {
    delete current.calls;
  }
}
