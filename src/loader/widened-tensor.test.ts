import { expect, it } from "vitest";
import { encodeTensor } from "../quant/codec.js";
import { layoutByName } from "../quant/layout.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import { asFloats, floatSource } from "./widened-tensor.js";

const values = Float32Array.from({ length: 64 }, (_, index) => (index % 16) - 8);
const data = encodeTensor("Q8_0", values);
const tensor: TensorDescriptor = {
  name: "gate",
  layout: layoutByName("Q8_0"),
  shape: [32, 2],
  elements: 64,
  sizeBytes: data.length,
};

it("gives any part of a quantized tensor as f32, and reads the file once", async () => {
  let reads = 0;
  const source = {
    descriptor: tensor,
    read: async (target: Uint8Array, byteOffset: number) => {
      reads++;
      target.set(data.subarray(byteOffset, byteOffset + target.length));
    },
    mappedLocation: () => undefined,
  };
  const floats = asFloats(tensor);
  expect(floats).toMatchObject({ layout: { name: "F32" }, sizeBytes: 256, shape: [32, 2] });
  const { read } = floatSource(floats ?? tensor, source);
  const target = new Uint8Array(128);
  await read(target, 128);
  for (const [index, value] of new Float32Array(target.buffer).entries())
    expect(value).toBeCloseTo(values[32 + index], 1);
  await read(target, 0);
  expect(new Float32Array(target.buffer)[0]).toBeCloseTo(values[0], 1);
  expect(reads).toBe(1);
});

it("leaves plain floats as they are", () => {
  for (const name of ["F32", "F16", "BF16"] as const)
    expect(asFloats({ ...tensor, layout: layoutByName(name) })).toBeUndefined();
});
