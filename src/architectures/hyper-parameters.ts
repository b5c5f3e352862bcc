// Reads the numbers that shape a decoder from GGUF metadata, and refuses the ones that cannot be: missing, zero,
// negative, or at odds with each other. Limits keep a hostile count from sizing a loop.

import { GgufError, ModelError } from "../errors.js";
import type { ArchitectureTraits, HyperParameters, ModelSource, RopeParameters, RopeScaling } from "./descriptor.js";

/** No published decoder comes near these; they bound what a file's numbers can make us do. */
const MAX_BLOCKS = 4_096;
const MAX_WIDTH = 1 << 20;
const MAX_HEADS = 1 << 14;
const MAX_CONTEXT = 2 ** 31 - 1;

const DEFAULT_ROPE_BASE = 10_000;
/** Time, height and width of a patch; a text token has the same position in all three. */
const TEXT_SECTIONS = 3;

export function readDecoderParameters(source: ModelSource, traits: ArchitectureTraits): HyperParameters {
  const reader = new HyperParameterReader(source);
  refuseUnsupported(source);
  const embeddingWidth = reader.count("embedding_length", MAX_WIDTH);
  const headCount = reader.count("attention.head_count", MAX_HEADS);
  const kvHeadCount = reader.optionalCount("attention.head_count_kv", MAX_HEADS) ?? headCount;
  if (kvHeadCount > headCount || headCount % kvHeadCount !== 0) {
    reader.refuse("attention.head_count_kv", `a divisor of ${headCount} (head_count)`, String(kvHeadCount));
  }
  const statedKeyWidth = reader.optionalCount("attention.key_length", MAX_WIDTH);
  if (statedKeyWidth === undefined && embeddingWidth % headCount !== 0) {
    reader.refuse("attention.head_count", `a divisor of ${embeddingWidth} (embedding_length)`, String(headCount));
  }
  const keyWidth = statedKeyWidth ?? embeddingWidth / headCount;
  const valueWidth = reader.optionalCount("attention.value_length", MAX_WIDTH) ?? keyWidth;
  if (headCount * Math.max(keyWidth, valueWidth) > MAX_WIDTH) {
    reader.refuse("attention.key_length", `heads × width of at most ${MAX_WIDTH}`, `${headCount} × ${keyWidth}`);
  }
  const contextLength = reader.count("context_length", MAX_CONTEXT);
  return {
    architecture: source.architecture,
    blockCount: readBlockCount(source, reader),
    embeddingWidth,
    feedForwardWidth: reader.count("feed_forward_length", MAX_WIDTH),
    headCount,
    kvHeadCount,
    keyWidth,
    valueWidth,
    contextLength,
    vocabularySize: readVocabularySize(source),
    normEpsilon: reader.positive("attention.layer_norm_rms_epsilon"),
    rope: readRope(reader, traits, keyWidth, contextLength),
  };
}

/** Blocks that only predict further tokens (NextN) stand at the end of the file and are not run. */
function readBlockCount(source: ModelSource, reader: HyperParameterReader): number {
  const blocks = reader.count("block_count", Math.min(MAX_BLOCKS, Math.max(1, source.tensors.size)));
  const predicting = source.metadata.integer(`${source.keyPrefix}.nextn_predict_layers`) ?? 0;
  if (predicting < 0 || predicting >= blocks) {
    reader.refuse("nextn_predict_layers", `0 to ${blocks - 1}`, String(predicting));
  }
  return blocks - predicting;
}

/** The embedding table decides; a file without one still gets a size, so that its absence is reported with the rest. */
function readVocabularySize({ metadata, tensors, keyPrefix, fileName }: ModelSource): number {
  const name = fileName("token_embd.weight");
  const size =
    tensors.get(name)?.shape[1] ??
    metadata.integer(`${keyPrefix}.vocab_size`) ??
    metadata.array("tokenizer.ggml.tokens")?.length;
  if (size === undefined || size < 1) {
    const found = size === undefined ? "no such tensor, and no vocabulary either" : String(size);
    throw new GgufError("GGUF_HYPERPARAMETER", {
      field: name,
      expected: "an embedding table [width, vocabulary]",
      found,
    });
  }
  return size;
}

/** What would be computed wrongly, not only slowly, if it were overlooked. */
function refuseUnsupported({ metadata, keyPrefix }: ModelSource): void {
  const experts = metadata.integer(`${keyPrefix}.expert_count`) ?? 0;
  if (experts > 0) {
    throw unsupported(keyPrefix, `the model has ${experts} experts per layer; mixtures of experts are not supported`, {
      experts,
    });
  }
  if (metadata.boolean(`${keyPrefix}.attention.causal`) === false) {
    throw unsupported(keyPrefix, "the model attends to later tokens too; only causal models are supported", {
      causal: false,
    });
  }
}

function unsupported(architecture: string, reason: string, details: Readonly<Record<string, unknown>>): ModelError {
  return new ModelError("MODEL_UNSUPPORTED", `[${architecture}] ${reason}`, { details: { architecture, ...details } });
}

function readRope(
  reader: HyperParameterReader,
  traits: ArchitectureTraits,
  keyWidth: number,
  contextLength: number,
): RopeParameters {
  const rotaryWidth = reader.optionalCount("rope.dimension_count", MAX_WIDTH) ?? keyWidth;
  if (rotaryWidth > keyWidth || rotaryWidth % 2 !== 0 || (!traits.partialRotary && rotaryWidth !== keyWidth)) {
    const expected = traits.partialRotary
      ? `an even number up to ${keyWidth} (a head)`
      : `${keyWidth} (a whole, even head)`;
    reader.refuse("rope.dimension_count", expected, String(rotaryWidth));
  }
  return {
    style: hasSections(reader) ? traits.sectionedRopeStyle : traits.ropeStyle,
    base: reader.optionalPositive("rope.freq_base") ?? DEFAULT_ROPE_BASE,
    rotaryWidth,
    scaling: readScaling(reader, contextLength),
  };
}

/** Sections count where the first two are there; text has no place in a fourth, so that one must be empty. */
function hasSections(reader: HyperParameterReader): boolean {
  const sections = reader.numbers("rope.dimension_sections");
  if (sections === undefined || !(sections[0] > 0 && sections[1] > 0)) return false;
  const beyond = sections.subarray(TEXT_SECTIONS).find((count) => count !== 0);
  if (beyond !== undefined)
    reader.refuse("rope.dimension_sections", `0 for all but the first ${TEXT_SECTIONS}`, String(beyond));
  return true;
}

/**
 * The keys `rope.scaling.yarn_*` are passed over: converters write them for every family, but llama.cpp, whose answers
 * these files were judged by, reads them for families that are not here, and it takes YaRN's own numbers for these.
 */
function readScaling(reader: HyperParameterReader, contextLength: number): RopeScaling {
  const kind = reader.text("rope.scaling.type") ?? "linear";
  if (kind !== "none" && kind !== "linear" && kind !== "yarn") {
    throw unsupported(reader.prefix, `rope scaling "${kind}" is not supported; supported are none, linear and yarn`, {
      scaling: kind,
    });
  }
  const factor =
    reader.optionalNonNegative("rope.scaling.factor") ?? reader.optionalNonNegative("rope.scale_linear") ?? 0;
  return {
    kind,
    // Files write 0 for "not scaled".
    factor: kind === "none" || factor === 0 ? 1 : factor,
    originalContext: reader.optionalCount("rope.scaling.original_context_length", MAX_CONTEXT) ?? contextLength,
    attentionFactor: reader.optionalPositive("rope.scaling.attn_factor") ?? 1,
  };
}

class HyperParameterReader {
  readonly #source: ModelSource;

  constructor(source: ModelSource) {
    this.#source = source;
  }

  get prefix(): string {
    return this.#source.keyPrefix;
  }

  refuse(key: string, expected: string, found: string): never {
    throw new GgufError("GGUF_HYPERPARAMETER", { field: `${this.prefix}.${key}`, expected, found });
  }

  count(key: string, max: number): number {
    return this.optionalCount(key, max) ?? this.refuse(key, `a whole number from 1 to ${max}`, "no such key");
  }

  optionalCount(key: string, max: number): number | undefined {
    const value = this.#number(key);
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || value < 1 || value > max) {
      this.refuse(key, `a whole number from 1 to ${max}`, String(value));
    }
    return value;
  }

  positive(key: string): number {
    return this.optionalPositive(key) ?? this.refuse(key, "a positive number", "no such key");
  }

  optionalPositive(key: string): number | undefined {
    const value = this.optionalNonNegative(key);
    return value === 0 ? this.refuse(key, "a positive number", "0") : value;
  }

  optionalNonNegative(key: string): number | undefined {
    const value = this.#number(key);
    return value !== undefined && value < 0 ? this.refuse(key, "not a negative number", String(value)) : value;
  }

  text(key: string): string | undefined {
    return this.#source.metadata.string(`${this.prefix}.${key}`);
  }

  /** A number, or an array of them. */
  numbers(key: string): Float64Array | undefined {
    const { metadata } = this.#source;
    const fullKey = `${this.prefix}.${key}`;
    if (metadata.typeOf(fullKey) === "array") return metadata.array(fullKey)?.toNumbers();
    const value = metadata.number(fullKey);
    return value === undefined ? undefined : Float64Array.of(value);
  }

  /** Some files write one number per layer; they are read as one number where all are the same. */
  #number(key: string): number | undefined {
    const values = this.numbers(key);
    if (values === undefined) return undefined;
    const first = values[0];
    if (!Number.isFinite(first) || values.some((value) => value !== first)) {
      this.refuse(key, "one number, or the same number for every layer", `${values.length} different numbers`);
    }
    return first;
  }
}
