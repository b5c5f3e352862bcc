// Memory and KV cache limits of backends that compute in host memory.

import { freemem, totalmem } from "node:os";
import { kvLayers } from "../graph/program.js";
import type { BackendMemory, KvCacheOptions, Support } from "./contract.js";

const Q8_BLOCK = 32;

/** Free memory of the machine, within the limit of a container. */
export function hostMemory(): BackendMemory {
  const limit = process.constrainedMemory?.() ?? 0;
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return { totalBytes, availableBytes: Math.max(0, Math.min(freemem(), totalBytes - process.memoryUsage.rss())) };
}

/** Whether the reference backend supports a cache with these options; its layers may differ. */
export function supportsHostKvCache(options: KvCacheOptions): Support {
  if (options.type !== "q8_0") return true;
  const uneven = kvLayers(options).find(
    ({ keyWidth, valueWidth }) => (keyWidth % Q8_BLOCK) + (valueWidth % Q8_BLOCK) > 0,
  );
  if (uneven === undefined) return true;
  const { keyWidth, valueWidth } = uneven;
  return { reason: `q8_0 needs head widths in multiples of ${Q8_BLOCK}, and these are ${keyWidth} and ${valueWidth}` };
}

/** Whether all layers have the same KV shape, for backends that require it. */
export function supportsUniformKvCache({ byLayer }: KvCacheOptions): Support {
  return byLayer === undefined
    ? true
    : { reason: "this backend needs the same shape of keys and values in all layers, and these layers differ" };
}
