// A weight of the reference backend: the whole tensor decoded to f32, so that every matmul is the plain one. Bytes are
// read positionally in bounded chunks: a file that shrinks meanwhile causes an error, never a fault.

import { BackendError, GgufError } from "../../errors.js";
import { codecFor } from "../../quant/codec.js";
import type { SupportedTypeName } from "../../quant/layout.js";
import { rowLength, type TensorDescriptor } from "../../tensor/descriptor.js";
import type { DeviceTensor } from "../../tensor/device-tensor.js";
import type { TensorSource } from "../contract.js";

/** Decoded between two turns of the event loop: a few milliseconds of work. */
const CHUNK_BYTES = 1 << 20;
const FLOAT_BYTES = 4;

/** A weight decoded to f32. */
export class ReferenceTensor implements DeviceTensor {
  readonly descriptor: TensorDescriptor;
  readonly rowLength: number;
  #values: Float32Array;

  constructor(descriptor: TensorDescriptor, values: Float32Array) {
    this.descriptor = descriptor;
    // A small integer to the compiler: see matrix.ts.
    this.rowLength = rowLength(descriptor) | 0;
    this.#values = values;
  }

  get residentBytes(): number {
    return this.#values.byteLength;
  }

  /** All rows, concatenated. */
  get values(): Float32Array {
    return this.#values;
  }

  [Symbol.dispose](): void {
    this.#values = new Float32Array();
  }
}

/** Bytes of a tensor in f32. */
export function decodedBytes(descriptor: TensorDescriptor): number {
  return descriptor.elements * FLOAT_BYTES;
}

/** Reads and decodes a tensor; throws if a value is not finite. */
export async function uploadTensor(source: TensorSource): Promise<ReferenceTensor> {
  const { descriptor } = source;
  const { blockBytes, blockElements, name } = descriptor.layout;
  const codec = codecFor(name as SupportedTypeName);
  const values = allocate(descriptor);
  const blocks = descriptor.sizeBytes / blockBytes;
  const chunkBlocks = Math.max(1, Math.floor(CHUNK_BYTES / blockBytes));
  const chunk = new Uint8Array(Math.min(blocks, chunkBlocks) * blockBytes);
  for (let block = 0; block < blocks; block += chunkBlocks) {
    const count = Math.min(chunkBlocks, blocks - block);
    const bytes = chunk.subarray(0, count * blockBytes);
    await source.read(bytes, block * blockBytes);
    codec.decode(bytes, 0, values, block * blockElements, count);
    refuseNotFinite(descriptor, values, block * blockElements, count * blockElements);
  }
  return new ReferenceTensor(descriptor, values);
}

function allocate(descriptor: TensorDescriptor): Float32Array {
  try {
    return new Float32Array(descriptor.elements);
  } catch (error) {
    throw new BackendError(
      "BACKEND_MEMORY",
      `[reference] ${descriptor.name} needs ${decodedBytes(descriptor)} bytes as f32 and they cannot be allocated`,
      { details: { tensor: descriptor.name, neededBytes: decodedBytes(descriptor) }, cause: error },
    );
  }
}

function refuseNotFinite(descriptor: TensorDescriptor, values: Float32Array, start: number, count: number): void {
  for (let index = start; index < start + count; index++) {
    if (!Number.isFinite(values[index])) {
      throw new GgufError("GGUF_TENSOR_NOT_FINITE", {
        field: descriptor.name,
        expected: "finite values",
        found: `${values[index]} at element ${index}`,
      });
    }
  }
}
