// All supported families, and the detection of a file's family. To add one, add a file to `families` and a line to
// its index.

import { ModelError } from "../errors.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import type { ArchitectureDescriptor, ModelSource, TensorIndex } from "./descriptor.js";
import * as families from "./families/index.js";
import { requireComputedBlocks, requireLanguageModel } from "./file-kind.js";
import { detectNaming } from "./naming.js";

/** All supported families. */
export const ARCHITECTURES: readonly ArchitectureDescriptor[] = Object.values(families);

/** Families that files without an architecture's name are compared with, the most specific first. */
const DETECTED: readonly ArchitectureDescriptor[] = [
  families.gemma3,
  families.gemma2,
  families.glm4,
  families.qwen3,
  families.qwen2,
  families.llama,
];

interface DetectedModel {
  readonly descriptor: ArchitectureDescriptor;
  readonly source: ModelSource;
}

/** Detects a file's family by its name, the prefix of its keys or its tensors; throws if it is not supported. */
export function detectArchitecture(metadata: GgufMetadata, tensors: TensorIndex): DetectedModel {
  requireLanguageModel(metadata);
  requireComputedBlocks(metadata, tensors);
  const fileName = detectNaming(tensors);
  const named = (name: string | undefined): ArchitectureDescriptor | undefined =>
    ARCHITECTURES.find((candidate) => candidate.name === name);
  const stated = metadata.string("general.architecture");
  const prefix = stated ?? prefixOfKeys(metadata);
  const descriptor =
    stated === undefined
      ? (named(prefix) ??
        DETECTED.find((candidate) => candidate.looksLike?.((name) => tensors.has(fileName(name))) === true))
      : named(stated);
  if (descriptor === undefined) {
    const supported = ARCHITECTURES.map(({ name }) => name).toSorted();
    const found = stated === undefined ? "no general.architecture and no tensors of a known family" : `"${stated}"`;
    throw new ModelError(
      "MODEL_ARCHITECTURE",
      `[architecture] expected one of ${supported.join(", ")}, found ${found}; use a model of one of these families`,
      { details: { stated, supported } },
    );
  }
  return {
    descriptor,
    source: { architecture: descriptor.name, metadata, tensors, keyPrefix: prefix ?? descriptor.name, fileName },
  };
}

/** A file without an architecture may still prefix its hyper-parameters with one. */
function prefixOfKeys(metadata: GgufMetadata): string | undefined {
  for (const key of metadata.keys()) {
    if (key.endsWith(".block_count")) return key.slice(0, -".block_count".length);
  }
  return undefined;
}
