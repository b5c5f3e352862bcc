// A weight of the CPU backend: its location in the mapped file. Nothing is copied; pages are read when a kernel first
// accesses them. If files cannot be mapped, the bytes are read into a buffer owned by the addon.

import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { MappedLocation, TensorSource } from "../contract.js";
import type { NativeAddon, NativeRegion, NativeWeightLocation } from "./native-bindings.js";
import { native } from "./native-error.js";

/** Bytes of one read, so that a large tensor does not block the event loop. */
const CHUNK_BYTES = 16 << 20;

type Mapping = MappedLocation["mapping"];

/** A weight that the addon reads in place. */
export class CpuTensor implements DeviceTensor {
  readonly descriptor: TensorDescriptor;
  readonly residentBytes: number;
  readonly location: NativeWeightLocation;
  readonly #release: () => void;

  constructor(
    descriptor: TensorDescriptor,
    location: NativeWeightLocation,
    residentBytes: number,
    release: () => void,
  ) {
    this.descriptor = descriptor;
    this.location = location;
    this.residentBytes = residentBytes;
    this.#release = release;
  }

  [Symbol.dispose](): void {
    this.#release();
  }
}

/** The addon's regions, one per mapping, shared by its tensors. */
export class TensorStore {
  readonly #addon: NativeAddon;
  readonly #mapped = new Map<Mapping, { readonly region: NativeRegion; users: number }>();

  constructor(addon: NativeAddon) {
    this.#addon = addon;
  }

  async upload(source: TensorSource): Promise<CpuTensor> {
    const { descriptor } = source;
    const { sizeBytes } = descriptor;
    const mapped = source.mappedLocation();
    if (mapped !== undefined) {
      const region = this.#acquire(mapped.mapping);
      const location = { region, byteOffset: mapped.byteOffset, sizeBytes };
      return new CpuTensor(
        descriptor,
        location,
        0,
        once(() => this.#release(mapped.mapping)),
      );
    }
    const region = native("BACKEND_STEP", () => this.#addon.allocateRegion(sizeBytes));
    try {
      await fill(region, source);
    } catch (error) {
      region.dispose();
      throw error;
    }
    return new CpuTensor(
      descriptor,
      { region, byteOffset: 0, sizeBytes },
      sizeBytes,
      once(() => region.dispose()),
    );
  }

  #acquire(mapping: Mapping): NativeRegion {
    const known = this.#mapped.get(mapping) ?? {
      region: native("BACKEND_STEP", () => this.#addon.mapRegion(mapping.address, mapping.sizeBytes)),
      users: 0,
    };
    known.users++;
    this.#mapped.set(mapping, known);
    return known.region;
  }

  #release(mapping: Mapping): void {
    const known = this.#mapped.get(mapping);
    if (known === undefined || --known.users > 0) return;
    this.#mapped.delete(mapping);
    known.region.dispose();
  }
}

async function fill({ buffer }: NativeRegion, source: TensorSource): Promise<void> {
  const bytes = new Uint8Array(buffer ?? new ArrayBuffer(0));
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    await source.read(bytes.subarray(start, start + CHUNK_BYTES), start);
  }
}

function once(work: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    work();
  };
}
