// One upload: memory is reserved in the cache first, then the backend uploads. A failure releases the memory and names
// the tensor.

import type { Backend, TensorSource } from "../backends/contract.js";
import { RocmForgeError, TensorError } from "../errors.js";
import { requireSupported } from "../gguf/tensor-index.js";
import type { DeviceTensor } from "../tensor/device-tensor.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import type { DeviceCache } from "./device-cache.js";

/** Uploads `source` to the device; the cache counts it once `handle` reports that it is resident. */
export async function uploadWithinBudget(
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

/** Waits for other loads to end if their reserved memory may become free. */
async function reserveRoom(handle: LazyTensor, sizeBytes: number, cache: DeviceCache): Promise<void> {
  while (cache.reserve(handle, sizeBytes) > 0) {
    if (!cache.isLoading) throw overBudget(handle.descriptor.name, sizeBytes, cache);
    await cache.nextArrival();
  }
}

/** The error for `what` if it does not fit on the device beside the tensors that live plans have pinned. */
export function overBudget(what: string, neededBytes: number, { budgetBytes, pinnedBytes }: DeviceCache): TensorError {
  const remedy = pinnedBytes === 0 ? "raise the budget" : "raise the budget or dispose a plan";
  return new TensorError(
    "TENSOR_BUDGET",
    `[loader] ${what} needs ${neededBytes} bytes on the device; the cache's budget is ${budgetBytes} bytes, of which ` +
      `live plans hold ${pinnedBytes}; ${remedy}`,
    { details: { name: what, neededBytes, budgetBytes, pinnedBytes } },
  );
}
