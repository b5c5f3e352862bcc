// One upload: room in the cache first, then the backend. Whatever fails gives its room back and says which tensor it was.

import type { Backend, TensorSource } from "../backends/contract.js";
import { RocmForgeError, TensorError } from "../errors.js";
import { requireSupported } from "../gguf/tensor-index.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { DeviceCache } from "./device-cache.js";

/** Loads `source` into the device; the cache counts it once `handle` says that it is resident. */
export async function uploadTensor(
  handle: LazyTensor,
  source: TensorSource,
  backend: Backend,
  cache: DeviceCache,
): Promise<DeviceTensor> {
  const { descriptor } = source;
  requireSupported(descriptor.layout, descriptor.name);
  await reserveRoom(handle, backend.residentBytes(descriptor, source.mappedLocation() !== undefined), cache);
  try {
    return await backend.upload(source);
  } catch (error) {
    cache.release(handle);
    if (error instanceof RocmForgeError) throw error;
    throw new TensorError("TENSOR_LOAD", `[loader] loading ${descriptor.name} failed: ${String(error)}`, {
      details: { name: descriptor.name, backend: backend.description.name },
      cause: error,
    });
  }
}

/** Room that other loads have set aside may be free again when they end, so they are waited for. */
async function reserveRoom(handle: LazyTensor, sizeBytes: number, cache: DeviceCache): Promise<void> {
  while (cache.reserve(handle, sizeBytes) > 0) {
    if (!cache.isLoading) throw overBudget(handle.descriptor.name, sizeBytes, cache);
    await cache.nextArrival();
  }
}

/** `what` cannot be on the device together with what live plans hold there. */
export function overBudget(what: string, neededBytes: number, { budgetBytes, pinnedBytes }: DeviceCache): TensorError {
  const remedy = pinnedBytes === 0 ? "raise the budget" : "raise the budget or dispose a plan";
  return new TensorError(
    "TENSOR_BUDGET",
    `[loader] ${what} needs ${neededBytes} bytes on the device; the cache's budget is ${budgetBytes} bytes, of which ` +
      `live plans hold ${pinnedBytes}; ${remedy}`,
    { details: { name: what, neededBytes, budgetBytes, pinnedBytes } },
  );
}
