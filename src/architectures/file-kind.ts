// GGUF files that are not language models: adapters, projectors, importance matrices and control vectors share the
// format and the extension. Detected by the keys that llama.cpp's converters write (`general.type`, and for older files
// `general.architecture` and other keys), before the absence of a tensor is reported that such a file never has.

import { ModelError } from "../errors.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import type { TensorIndex } from "./descriptor.js";

interface FileKind {
  readonly matches: (type: string | undefined, architecture: string | undefined, metadata: GgufMetadata) => boolean;
  readonly found: string;
  readonly advice: string;
}

const KINDS: readonly FileKind[] = [
  {
    matches: (type, _architecture, metadata) => type === "adapter" || metadata.has("adapter.type"),
    found: "a LoRA adapter",
    advice: "merge it into its base model with llama.cpp's llama-export-lora, and open the result",
  },
  {
    matches: (type, architecture, metadata) =>
      type === "mmproj" || architecture === "clip" || metadata.has("clip.has_vision_encoder"),
    found: "a projector for images or sound (mmproj)",
    advice: "open the language model that it came with; images and sound are not read here",
  },
  {
    matches: (type, _architecture, metadata) => type === "imatrix" || metadata.has("imatrix.chunk_count"),
    found: "an importance matrix (imatrix), which steers quantisation",
    advice: "open the model that it was made from",
  },
  {
    matches: (_type, architecture, metadata) =>
      architecture === "controlvector" || metadata.has("controlvector.model_hint"),
    found: "a control vector",
    advice: "open the model that it was made for; control vectors are not applied here",
  },
];

/** Throws MODEL_KIND for a file that is not a language model. */
export function requireLanguageModel(metadata: GgufMetadata): void {
  const [type, architecture] = [textOf(metadata, "general.type"), textOf(metadata, "general.architecture")];
  const kind = KINDS.find(({ matches }) => matches(type, architecture, metadata));
  if (kind !== undefined) throw wrongKind(kind, metadata);
}

/** Throws MODEL_KIND for a stand-alone draft head. */
export function requireComputedBlocks(metadata: GgufMetadata, tensors: TensorIndex): void {
  if (isDraftHead(metadata, tensors)) throw wrongKind(PREDICTORS, metadata);
}

/** Whether all blocks of a file predict further tokens (NextN, MTP): a stand-alone draft head. */
export function isDraftHead(metadata: GgufMetadata, tensors: TensorIndex): boolean {
  const predicting = metadata.get(`${textOf(metadata, "general.architecture")}.nextn_predict_layers`);
  if (typeof predicting !== "number" || predicting < 1) return false;
  const blocks = [...tensors.keys()].filter((name) => name.startsWith("blk."));
  const isComputed = blocks.some((name) => name.startsWith("blk.0.")) && !tensors.has("blk.0.nextn.eh_proj.weight");
  return blocks.length > 0 && !isComputed;
}

function wrongKind(kind: Pick<FileKind, "found" | "advice">, metadata: GgufMetadata): ModelError {
  const [type, architecture] = [textOf(metadata, "general.type"), textOf(metadata, "general.architecture")];
  const base = textOf(metadata, "general.base_model.0.name") ?? textOf(metadata, "general.basename");
  const belongs = base === undefined ? "" : ` for ${JSON.stringify(base.slice(0, 100))}`;
  return new ModelError(
    "MODEL_KIND",
    `[model] expected a language model, found ${kind.found}${belongs}; ${kind.advice}`,
    {
      details: { found: kind.found, type, architecture },
    },
  );
}

const PREDICTORS: Pick<FileKind, "found" | "advice"> = {
  found: "a draft head (blocks that predict further tokens, and no others)",
  advice: "open the model that it was made for, which uses a draft head named mtp-*.gguf in its folder",
};

/** A key of another type is ignored here; the code that reads it refuses it. */
function textOf(metadata: GgufMetadata, key: string): string | undefined {
  const value = metadata.get(key);
  return typeof value === "string" ? value : undefined;
}
