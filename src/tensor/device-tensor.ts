// A tensor that lives where a backend computes. Only the backend that made it knows what is inside.

import type { TensorDescriptor } from "./descriptor.js";

export interface DeviceTensor extends Disposable {
  readonly descriptor: TensorDescriptor;
  /** Bytes it holds on the device; a tensor that is the file's own mapping holds none. */
  readonly residentBytes: number;
}
