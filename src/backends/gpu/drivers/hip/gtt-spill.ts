// Notices when allocations of a discrete AMD card land in host memory. The kernel driver puts what VRAM has no room for into
// GTT, which the card reaches over PCI Express: nothing fails, and everything that lies there is read twenty times slower.

import type { MemoryPools } from "./shared-memory.js";

/** Pinned memory lies in GTT too: uploads, steps and other programs have less than this. */
const USUAL_GTT_BYTES = 512 * 2 ** 20;
/** Share of VRAM that is free when the driver begins to move things out of it. */
const FULL_SHARE = 0.03;
const GIB = 2 ** 30;

/** Compares a card's pools with what they were when the card was opened. */
export class GttWatch {
  readonly #read: () => MemoryPools | undefined;
  readonly #usedAtStart: number | undefined;
  #isSaid = false;

  constructor(read: () => MemoryPools | undefined) {
    this.#read = read;
    const pools = read();
    this.#usedAtStart = pools === undefined ? undefined : usedBytes(pools.gtt);
  }

  /** What to say, the first time that VRAM is full and GTT has grown; undefined otherwise. */
  look(): string | undefined {
    if (this.#isSaid || this.#usedAtStart === undefined) return undefined;
    const pools = this.#read();
    if (pools === undefined) return undefined;
    const { vram, gtt } = pools;
    const grownBytes = usedBytes(gtt) - this.#usedAtStart;
    if (vram.freeBytes > vram.totalBytes * FULL_SHARE || grownBytes < USUAL_GTT_BYTES) return undefined;
    this.#isSaid = true;
    const [grown, total] = [grownBytes / GIB, vram.totalBytes / GIB].map((size) => size.toFixed(1));
    return `${grown} GiB that were allocated on the card lie in host memory (GTT), because its ${total} GiB of VRAM are full: what is read from there is far slower. Use a shorter context, a smaller KV type or smaller weights, or close what else uses the card`;
  }
}

function usedBytes({ totalBytes, freeBytes }: MemoryPools["gtt"]): number {
  return totalBytes - freeBytes;
}
