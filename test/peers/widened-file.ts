// A GGUF file rewritten with every tensor as f32: a peer computes it without quantizing activations.

import { GgufFile } from "../../src/gguf/file.js";
import { type GgufWriterTensor, writeGguf } from "../../src/gguf/writer.js";
import { decodeTensor, encodeTensor } from "../../src/quant/codec.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";

export async function widenFile(from: string, to: string): Promise<void> {
  using file = await GgufFile.open(from, { mapping: "off" });
  const tensors: GgufWriterTensor[] = [];
  for (const tensor of file.tensors.values()) {
    const bytes = new Uint8Array(tensor.sizeBytes);
    await file.readTensor(tensor, bytes);
    const elements = tensor.shape.reduce((count, dimension) => count * dimension, 1);
    const data = encodeTensor("F32", decodeTensor(tensor.layout.name as SupportedTypeName, bytes, elements));
    tensors.push({ name: tensor.name, type: "F32", shape: tensor.shape, data });
  }
  await writeGguf(to, { metadata: [...file.metadata.entries()], tensors });
}
