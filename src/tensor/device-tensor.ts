// A tensor in a backend's memory. Only the backend that made it knows its representation.

import type { TensorDescriptor } from "./descriptor.js";

/** A tensor in a backend's memory; disposing it frees the memory. */
export interface DeviceTensor extends Disposable {
  readonly descriptor: TensorDescriptor;
  /** Bytes that the tensor occupies on the device; 0 for a tensor that is read from the file's mapping. */
  readonly residentBytes: number;
}
