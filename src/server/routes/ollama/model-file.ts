// What a model's file says about itself, for clients that list models: read from the header once for each model, without
// loading it. Invariant: the file's path is not part of it.

import { readChatTemplates } from "../../../chat/template/chat-templates.js";
import { templateCanReason } from "../../../chat/output/convention.js";
import type { ModelListing } from "../../../engine/serving.js";
import { GgufFile } from "../../../gguf/file.js";
import type { GgufMetadata } from "../../../gguf/metadata.js";
import { FILE_TYPE_NAMES } from "./file-type-table.js";

/** The header of a model file, as far as clients see it. */
export interface DescribedFile {
  readonly architecture: string;
  readonly sizeBytes: number;
  readonly parameters: number;
  /** The mix of block types: `Q4_K_M`. */
  readonly quantization: string;
  /** The context length that the model was trained with. */
  readonly contextTokens: number | undefined;
  readonly template: string;
  readonly callsTools: boolean;
  readonly reasons: boolean;
  /** Numbers, flags and short texts of the metadata; arrays are null. */
  readonly metadata: Readonly<Record<string, string | number | boolean | null>>;
}

/** Longer texts, such as licenses and templates, are left out of the metadata. */
const MAX_TEXT_CHARACTERS = 1024;

/** The files of a server's models, each read once. */
export class DescribedFiles {
  readonly #files = new Map<string, Promise<DescribedFile>>();

  /** Rejects with a GgufError or a FileError if the file cannot be read; the next call tries again. */
  async of({ name, path }: Pick<ModelListing, "name" | "path">): Promise<DescribedFile> {
    const known = this.#files.get(name);
    if (known !== undefined) return await known;
    const reading = readModelFile(path);
    this.#files.set(name, reading);
    reading.catch(() => this.#files.delete(name));
    return await reading;
  }
}

async function readModelFile(path: string): Promise<DescribedFile> {
  using file = await GgufFile.open(path, { mapping: "off" });
  const { metadata, tensors, sizeBytes } = file;
  const architecture = metadata.string("general.architecture") ?? "";
  const templates = readChatTemplates(metadata);
  const template = templates.toolUse ?? templates.default ?? "";
  return {
    architecture,
    sizeBytes,
    parameters: [...tensors.values()].reduce((sum, { elements }) => sum + elements, 0),
    quantization: quantizationOf(file),
    contextTokens: numberOf(metadata, `${architecture}.context_length`),
    template: templates.default ?? "",
    callsTools: template.includes("tools"),
    reasons: templateCanReason(template),
    metadata: plainMetadata(metadata),
  };
}

/** The file's own word, or the type of most of its parameters. */
function quantizationOf({ metadata, tensors }: GgufFile): string {
  const named = FILE_TYPE_NAMES[numberOf(metadata, "general.file_type") ?? -1];
  if (named !== undefined) return named;
  const elements = new Map<string, number>();
  for (const { layout, elements: own } of tensors.values())
    elements.set(layout.name, (elements.get(layout.name) ?? 0) + own);
  const [most] = [...elements].sort(([, one], [, other]) => other - one);
  return most?.[0] ?? "";
}

/** A value of another type counts as absent: a list of models does not fail because of one file. */
function numberOf(metadata: GgufMetadata, key: string): number | undefined {
  const value = metadata.get(key);
  return typeof value === "number" ? value : undefined;
}

function plainMetadata(metadata: GgufMetadata): DescribedFile["metadata"] {
  const entries = [...metadata.entries()].flatMap(({ key, value }): [string, string | number | boolean | null][] => {
    if (typeof value === "bigint") return [[key, Number(value)]];
    if (typeof value === "object") return [[key, null]];
    return typeof value === "string" && value.length > MAX_TEXT_CHARACTERS ? [] : [[key, value]];
  });
  return Object.fromEntries(entries);
}
