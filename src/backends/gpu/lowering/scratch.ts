// One block of device memory for everything that a program's steps leave behind for their next launch: each part has an
// offset that holds for the largest step, so that no address ever changes.

import { roundUp } from "../memory/device-memory.js";
import type { MemoryPlace } from "./launch.js";

const ALIGNMENT_BYTES = 256;

export class Scratch {
  readonly #space: "scratch" | "blas";
  #sizeBytes = 0;

  constructor(space: "scratch" | "blas" = "scratch") {
    this.#space = space;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Parts of no size have a place too, which no launch writes to. */
  reserve(sizeBytes: number): MemoryPlace {
    const byteOffset = this.#sizeBytes;
    this.#sizeBytes += roundUp(Math.max(1, sizeBytes), ALIGNMENT_BYTES);
    return { space: this.#space, byteOffset };
  }
}

/** Further on in the same part. */
export function shifted(place: MemoryPlace, byteOffset: number): MemoryPlace {
  if (place.space === "weight") throw new TypeError("a weight is used from its beginning");
  return { space: place.space, byteOffset: place.byteOffset + byteOffset };
}
