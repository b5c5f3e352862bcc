// A file beside a model that adds blocks to it: a draft head that was converted on its own (`mtp-NAME.gguf`). Invariants:
// the two are of the same architecture and width, and the added blocks follow the model's; a tensor that both have is
// the model's; hyper-parameters are the extension's, which count its blocks too.

import { GgufError } from "../errors.js";
import { GgufMetadata } from "./metadata.js";
import type { ModelParts } from "./split.js";
import type { HeaderSource } from "./header-cursor.js";

const ARCHITECTURE = "general.architecture";

/** A model with the tensors that an extension has and the model has not. */
export function extendModel<Source extends HeaderSource>(
  model: ModelParts<Source>,
  extension: ModelParts<Source>,
): ModelParts<Source> {
  const [first, ...others] = model.parts;
  const [added] = extension.parts;
  checkExtension(first.header.metadata, added.header.metadata, added.source.path);
  const metadata = withHyperParameters(first.header.metadata, added.header.metadata);
  const tensors = new Map(model.tensors);
  for (const [name, tensor] of extension.tensors) {
    if (!tensors.has(name)) tensors.set(name, { ...tensor, part: tensor.part + model.parts.length });
  }
  return {
    parts: [{ ...first, header: { ...first.header, metadata } }, ...others, ...extension.parts],
    tensors,
  };
}

function checkExtension(model: GgufMetadata, extension: GgufMetadata, path: string): void {
  const architecture = model.string(ARCHITECTURE);
  const same = (field: string, expected: string | number | undefined, found: string | number | undefined): void => {
    if (expected !== undefined && expected === found) return;
    throw new GgufError(
      "GGUF_SPLIT",
      { field, expected: `${expected ?? "such a key"}, as in the model`, found: String(found ?? "no such key") },
      { details: { path } },
    );
  };
  same(ARCHITECTURE, architecture, extension.string(ARCHITECTURE));
  const [width, blocks] = [`${architecture}.embedding_length`, `${architecture}.block_count`];
  same(width, model.integer(width), extension.integer(width));
  const predicting = extension.integer(`${architecture}.nextn_predict_layers`) ?? 0;
  const all = model.integer(blocks);
  same(blocks, all === undefined ? undefined : all + predicting, extension.integer(blocks));
}

function withHyperParameters(model: GgufMetadata, extension: GgufMetadata): GgufMetadata {
  const prefix = `${model.string(ARCHITECTURE)}.`;
  const replaced = Array.from(extension.entries()).filter(({ key }) => key.startsWith(prefix));
  return new GgufMetadata([...model.entries(), ...replaced]);
}
