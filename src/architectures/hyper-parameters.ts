// Reads the numbers that shape a decoder from GGUF metadata, and refuses impossible ones: missing, zero, negative, or
// inconsistent. Limits keep a hostile count from sizing a loop.

import { GgufError, ModelError } from "../errors.js";
import type { DecoderTraits, HyperParameters, ModelSource } from "./descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "./hyper-parameter-reader.js";
import type { LayerNorms, LayerSpec, RopeScaling, RopeSpec } from "./layer.js";

/** Limits far above any published decoder, which bound the work that a file's numbers can cause. */
const MAX_BLOCKS = 4_096;
const MAX_WIDTH = 1 << 20;
const MAX_HEADS = 1 << 14;

const DEFAULT_ROPE_BASE = 10_000;
/** Time, height and width of a patch; a text token has the same position in all three. */
const TEXT_SECTIONS = 3;

/** Hyper-parameters of a decoder whose layers differ only in counts; a family may modify the layers afterwards. */
export function readDecoderParameters(source: ModelSource, traits: DecoderTraits): HyperParameters {
  const reader = new HyperParameterReader(source);
  refuseUnsupported(source);
  const embeddingWidth = reader.count("embedding_length", MAX_WIDTH);
  const layerCount = readLayerCount(source, reader);
  const counts = (key: string, max: number): readonly number[] | undefined => {
    if (traits.countsByLayer) return reader.optionalLayerCounts(key, max, layerCount);
    const count = reader.optionalCount(key, max);
    return count === undefined ? undefined : Array.from({ length: layerCount }, () => count);
  };
  const required = (key: string, max: number): readonly number[] =>
    counts(key, max) ?? reader.refuse(key, `a whole number from 1 to ${max}`, "no such key");
  const heads = required("attention.head_count", MAX_HEADS);
  const kvHeads = counts("attention.head_count_kv", MAX_HEADS) ?? heads;
  const { keyWidth, valueWidth } = readHeadWidths(reader, embeddingWidth, heads, kvHeads);
  const widths = required("feed_forward_length", MAX_WIDTH);
  const contextLength = reader.count("context_length", MAX_CONTEXT);
  const rope = readRope(reader, traits, keyWidth, contextLength);
  const norms = NORMS[traits.normPlacement];
  const layers = heads.map((headCount, layer): LayerSpec => ({
    mixer: {
      kind: "attention",
      heads: headCount,
      kvHeads: kvHeads[layer],
      keyWidth,
      valueWidth,
      scale: 1 / Math.sqrt(keyWidth),
      rope,
      queryKeyNorm: traits.queryKeyNorm,
      sinks: false,
    },
    feedForward: { kind: "dense", width: widths[layer], activation: traits.activation, gateAndUp: traits.gateAndUp },
    norms,
  }));
  return {
    architecture: source.architecture,
    embeddingWidth,
    contextLength,
    vocabularySize: readVocabularySize(source),
    normEpsilon: reader.positive("attention.layer_norm_rms_epsilon"),
    layers,
  };
}

const NORMS: { readonly [Placement in DecoderTraits["normPlacement"]]: LayerNorms } = {
  before: { beforeMixer: "attn_norm", beforeFeedForward: "ffn_norm" },
  "before-and-after": {
    beforeMixer: "attn_norm",
    afterMixer: "post_attention_norm",
    beforeFeedForward: "ffn_norm",
    afterFeedForward: "post_ffw_norm",
  },
};

/** Widths of keys and values; without keys for them, the first layer's heads share the embedding width. */
function readHeadWidths(
  reader: HyperParameterReader,
  embeddingWidth: number,
  heads: readonly number[],
  kvHeads: readonly number[],
): { readonly keyWidth: number; readonly valueWidth: number } {
  for (const [layer, count] of kvHeads.entries()) {
    if (count > heads[layer] || heads[layer] % count !== 0)
      reader.refuse("attention.head_count_kv", `a divisor of ${heads[layer]} (head_count)`, String(count));
  }
  const statedKeyWidth = reader.optionalCount("attention.key_length", MAX_WIDTH);
  if (statedKeyWidth === undefined && embeddingWidth % heads[0] !== 0) {
    reader.refuse("attention.head_count", `a divisor of ${embeddingWidth} (embedding_length)`, String(heads[0]));
  }
  const keyWidth = statedKeyWidth ?? embeddingWidth / heads[0];
  const valueWidth = reader.optionalCount("attention.value_length", MAX_WIDTH) ?? keyWidth;
  const most = Math.max(...heads);
  if (most * Math.max(keyWidth, valueWidth) > MAX_WIDTH) {
    reader.refuse("attention.key_length", `heads × width of at most ${MAX_WIDTH}`, `${most} × ${keyWidth}`);
  }
  return { keyWidth, valueWidth };
}

/**
 * Number of computed layers: blocks at the end of the file that only predict further tokens (NextN) are not computed.
 */
function readLayerCount(source: ModelSource, reader: HyperParameterReader): number {
  const blocks = reader.count("block_count", Math.min(MAX_BLOCKS, Math.max(1, source.tensors.size)));
  const predicting = source.metadata.integer(`${source.keyPrefix}.nextn_predict_layers`) ?? 0;
  if (predicting < 0 || predicting >= blocks) {
    reader.refuse("nextn_predict_layers", `0 to ${blocks - 1}`, String(predicting));
  }
  return blocks - predicting;
}

/**
 * The embedding table decides; a file without one still gets a size, so that its absence is reported with other
 * problems.
 */
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

/** Refuses features that would be computed wrongly, not only slowly, if they were overlooked. */
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
  traits: DecoderTraits,
  keyWidth: number,
  contextLength: number,
): RopeSpec {
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
    ...(traits.ropeFactors === undefined ? {} : { factors: traits.ropeFactors }),
  };
}

/** Sections count if the first two are not 0; text does not use a fourth, so that one must be 0. */
function hasSections(reader: HyperParameterReader): boolean {
  const sections = reader.numbers("rope.dimension_sections");
  if (sections === undefined || !(sections[0] > 0 && sections[1] > 0)) return false;
  const beyond = sections.subarray(TEXT_SECTIONS).find((count) => count !== 0);
  if (beyond !== undefined)
    reader.refuse("rope.dimension_sections", `0 for all but the first ${TEXT_SECTIONS}`, String(beyond));
  return true;
}

/**
 * The keys `rope.scaling.yarn_*` are ignored: converters write them for every family, but llama.cpp reads them only for
 * families that are not supported here, and uses YaRN's default numbers for these.
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
