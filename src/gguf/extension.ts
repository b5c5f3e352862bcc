// A file beside a model that adds blocks to it: a draft head that was converted on its own (`mtp-NAME.gguf`). Invariants:
// the two are of the same architecture and width, and the added blocks follow the model's; nothing else changes, so that
// the model computes what it computes by itself: of the extension's hyper-parameters only the number of blocks counts,
// and what lists of one entry per block say about the added ones.

import { GgufError } from "../errors.js";
import type { GgufArray } from "./array.js";
import { GgufMetadata } from "./metadata.js";
import type { ModelParts } from "./split.js";
import type { HeaderSource } from "./header-cursor.js";
import { type GgufValue, isFixed } from "./value.js";

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
  const blocks = first.header.metadata.integer(`${first.header.metadata.string(ARCHITECTURE)}.block_count`) ?? 0;
  for (const [name, tensor] of extension.tensors) {
    if (!tensors.has(name) && blockOf(name) >= blocks)
      tensors.set(name, { ...tensor, part: tensor.part + model.parts.length });
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
  const counts = ["block_count", "nextn_predict_layers"].map((key) => prefix + key);
  const replaced = Array.from(extension.entries()).filter(
    (entry) =>
      counts.includes(entry.key) || (entry.key.startsWith(prefix) && goesOn(model.get(entry.key), entry.value)),
  );
  return new GgufMetadata([...model.entries(), ...replaced]);
}

/** Whether a list begins with all entries of the other, and has more. */
function goesOn(list: GgufValue | undefined, longer: GgufValue): boolean {
  if (!isNumbers(list) || !isNumbers(longer) || longer.length <= list.length) return false;
  const [own, all] = [list.toNumbers(), longer.toNumbers()];
  return own.every((value, index) => value === all[index]);
}

function isNumbers(value: GgufValue | undefined): value is GgufArray {
  return typeof value === "object" && isFixed(value.elementType);
}

/** The number of the block that a tensor belongs to; -1 if it belongs to none. */
function blockOf(name: string): number {
  return Number(/^blk\.(?<block>\d+)\./.exec(name)?.groups?.["block"] ?? -1);
}
