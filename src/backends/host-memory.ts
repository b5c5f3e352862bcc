// Memory and KV limits that every backend which computes in the host's memory shares.

import { freemem, totalmem } from "node:os";
import type { BackendMemory, KvCacheOptions, Support } from "./contract.js";

const Q8_BLOCK = 32;

/** Free memory of the machine, and no more than what a container's limit leaves to this process. */
export function hostMemory(): BackendMemory {
  const limit = process.constrainedMemory?.() ?? 0;
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return { totalBytes, availableBytes: Math.max(0, Math.min(freemem(), totalBytes - process.memoryUsage.rss())) };
}

export function supportsHostKvCache({ type, keyWidth, valueWidth }: KvCacheOptions): Support {
  if (type !== "q8_0" || (keyWidth % Q8_BLOCK === 0 && valueWidth % Q8_BLOCK === 0)) return true;
  return { reason: `q8_0 needs head widths in multiples of ${Q8_BLOCK}, and these are ${keyWidth} and ${valueWidth}` };
}
