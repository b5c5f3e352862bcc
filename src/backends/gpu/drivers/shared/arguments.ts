// A kernel's one argument as a launch takes it: a list of pointers, here of one, and the bytes it points at.
//   0 address of the argument | 8 nothing | 16 the argument
// The memory is an ArrayBuffer's, so it is freed with the last reference to it; a launch copies it.

import type { ArgumentBlock } from "./driver.js";
import { addressOf } from "./ffi.js";

const ARGUMENT_OFFSET = 16;
/** Supported by every device. */
const MAX_ARGUMENT_BYTES = 4096;

/** Memory for a kernel's argument with the pointer list that launches take; rewritten in place between launches. */
export class ParameterBlock implements ArgumentBlock {
  readonly view: DataView;
  /** Address of the pointer list. */
  readonly parameters: bigint;

  constructor(sizeBytes: number) {
    if (!Number.isInteger(sizeBytes) || sizeBytes < 1 || sizeBytes > MAX_ARGUMENT_BYTES) {
      throw new RangeError(`a kernel's argument has 1 to ${MAX_ARGUMENT_BYTES} bytes, not ${sizeBytes}`);
    }
    const buffer = new ArrayBuffer(ARGUMENT_OFFSET + sizeBytes);
    this.parameters = addressOf(buffer);
    new DataView(buffer).setBigUint64(0, this.parameters + BigInt(ARGUMENT_OFFSET), true);
    this.view = new DataView(buffer, ARGUMENT_OFFSET, sizeBytes);
  }
}
