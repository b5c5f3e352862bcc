// Small quantized matrices as F32, for backends that quantize the inputs of quantized weights: in models with recurrent
// layers they are the gates of heads, whose errors a state keeps and compounds.

import type { TensorSource } from "../backends/contract.js";
import { decodeTensor } from "../quant/codec.js";
import { isSupported, layoutByName } from "../quant/layout.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";

const PLAIN = new Set(["F32", "F16", "BF16"]);

/** The tensor as F32; undefined if it is one of plain floats, or of a type that is not known. */
export function asFloats(tensor: TensorDescriptor): TensorDescriptor | undefined {
  if (PLAIN.has(tensor.layout.name) || !isSupported(tensor.layout)) return undefined;
  return { ...tensor, layout: layoutByName("F32"), sizeBytes: tensor.elements * Float32Array.BYTES_PER_ELEMENT };
}

/** What `source` has, decoded when it is first read. */
export function floatSource(descriptor: TensorDescriptor, source: TensorSource): TensorSource {
  const { layout, sizeBytes, elements, name } = source.descriptor;
  if (!isSupported(layout)) throw new TypeError(`${name} of ${layout.name} cannot be decoded`);
  let decoded: Promise<Uint8Array> | undefined;
  const decode = async (): Promise<Uint8Array> => {
    const bytes = new Uint8Array(sizeBytes);
    await source.read(bytes, 0);
    return new Uint8Array(decodeTensor(layout.name, bytes, elements).buffer);
  };
  return {
    descriptor,
    read: async (target, byteOffset) => {
      const bytes = await (decoded ??= decode());
      target.set(bytes.subarray(byteOffset, byteOffset + target.length));
    },
    mappedLocation: () => undefined,
  };
}
