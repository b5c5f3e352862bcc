// A copy of a model file with some of its metadata changed.

import type { GgufEntry } from "../../src/gguf/entry.js";
import { GgufFile } from "../../src/gguf/file.js";
import { type GgufWriterTensor, writeGguf } from "../../src/gguf/writer.js";

/** The entries replace those with the same keys. */
export async function copyModel(from: string, to: string, entries: readonly GgufEntry[]): Promise<void> {
  using file = await GgufFile.open(from, { mapping: "off" });
  const tensors: GgufWriterTensor[] = [];
  for (const tensor of file.tensors.values()) {
    const data = new Uint8Array(tensor.sizeBytes);
    await file.readTensor(tensor, data);
    tensors.push({ name: tensor.name, type: tensor.layout.name, shape: tensor.shape, data });
  }
  const changed = new Set(entries.map(({ key }) => key));
  const metadata = [...file.metadata.entries()].filter(({ key }) => !changed.has(key));
  await writeGguf(to, { metadata: [...metadata, ...entries], tensors });
}
