// Reads the numbers that shape a decoder from GGUF metadata, and refuses impossible ones: missing, zero, negative, or
// inconsistent. Limits keep a hostile count from sizing a loop.

import { GgufError, ModelError } from "../errors.js";
import type { AttentionParameters, DecoderTraits, ModelSource } from "./descriptor.js";
import { HyperParameterReader, MAX_CONTEXT } from "./hyper-parameter-reader.js";
import {
  type AttentionSpec,
  type FeedForwardSpec,
  type LayerSpec,
  type LongRopeFactors,
  NORMS,
  type RopeScaling,
  type RopeSpec,
} from "./layer.js";

/** Limits far above any published decoder, which bound the work that a file's numbers can cause. */
const MAX_BLOCKS = 4_096;
export const MAX_WIDTH = 1 << 20;
const MAX_HEADS = 1 << 14;

const DEFAULT_ROPE_BASE = 10_000;
const LONGROPE = "longrope";
/** Time, height and width of a patch; a text token has the same position in all three. */
const TEXT_SECTIONS = 3;

/** Reads the feed-forward networks of all layers. */
export type FeedForwardReader = (
  reader: HyperParameterReader,
  layers: number,
  traits: DecoderTraits,
) => readonly FeedForwardSpec[];

/** Hyper-parameters of a decoder whose layers differ only in counts; a family may modify the layers afterwards. */
export function readDecoderParameters(
  source: ModelSource,
  traits: DecoderTraits,
  readFeedForward: FeedForwardReader = readDense,
  { recurrent = () => false }: HybridOptions = {},
): AttentionParameters {
  const reader = new HyperParameterReader(source);
  refuseUnsupported(source);
  const embeddingWidth = reader.count("embedding_length", MAX_WIDTH);
  const layerCount = readLayerCount(source, reader);
  const { heads, kvHeads } = readHeads(reader, layerCount, recurrent);
  const { keyWidth, valueWidth } = readHeadWidths(reader, embeddingWidth, heads, kvHeads);
  const feedForward = readFeedForward(reader, layerCount, traits);
  const contextLength = reader.count("context_length", MAX_CONTEXT);
  const rope = readRope(reader, traits, keyWidth, contextLength);
  const norms = NORMS[traits.normPlacement];
  const layers = heads.map((headCount, layer): LayerSpec<AttentionSpec> => ({
    mixer: {
      kind: "attention",
      heads: headCount,
      kvHeads: kvHeads[layer],
      keyWidth,
      valueWidth,
      scale: 1 / Math.sqrt(keyWidth),
      rope,
      ...(traits.queryKeyNorm === undefined ? {} : { queryKeyNorm: traits.queryKeyNorm }),
      sinks: false,
    },
    feedForward: feedForward[layer],
    norms,
    ...(traits.normPlacement === "parallel" ? { parallel: true } : {}),
  }));
  return {
    architecture: source.architecture,
    embeddingWidth,
    contextLength,
    vocabularySize: readVocabularySize(source),
    norm: traits.norm,
    normEpsilon: reader.positive(NORM_EPSILONS[traits.norm]),
    layers,
  };
}

/** How a family with recurrent layers is read. */
export interface HybridOptions {
  /** The layers without attention: they may have 0 heads, and their mixers are replaced. Absent: none. */
  readonly recurrent?: (layer: number) => boolean;
}

/** Heads of each layer; those of layers without attention have no meaning. */
function readHeads(
  reader: HyperParameterReader,
  layers: number,
  recurrent: (layer: number) => boolean,
): { readonly heads: readonly number[]; readonly kvHeads: readonly number[] } {
  const least = Array.from({ length: layers }, (_, layer) => layer).some(recurrent) ? 0 : 1;
  const stated = reader.layerCounts("attention.head_count", MAX_HEADS, layers, least);
  const statedKv = reader.optionalLayerCounts("attention.head_count_kv", MAX_HEADS, layers, least) ?? stated;
  const usual = Math.max(1, ...stated);
  const attending = (counts: readonly number[], other: (layer: number) => number): readonly number[] =>
    counts.map((count, layer) => (recurrent(layer) ? other(layer) : count));
  const heads = attending(stated, () => usual);
  const kvHeads = attending(statedKv, () => usual);
  for (const [layer, count] of heads.entries()) {
    if (count === 0) reader.refuse("attention.head_count", `at least 1 in layer ${layer}, which has attention`, "0");
    if (kvHeads[layer] === 0)
      reader.refuse("attention.head_count_kv", `at least 1 in layer ${layer}, which has attention`, "0");
  }
  return { heads, kvHeads };
}

/** The same layers with other mixers. */
export function withMixers(
  parameters: AttentionParameters,
  change: (mixer: AttentionSpec, layer: number) => AttentionSpec,
): AttentionParameters {
  return {
    ...parameters,
    layers: parameters.layers.map(({ mixer, ...rest }, index) => ({ ...rest, mixer: change(mixer, index) })),
  };
}

const NORM_EPSILONS = {
  rms: "attention.layer_norm_rms_epsilon",
  layer: "attention.layer_norm_epsilon",
} as const;

/** Dense feed-forward networks in all layers. */
export const readDense: FeedForwardReader = (reader, layers, traits) => {
  const { activation, gateAndUp } = traits;
  const widths = reader.layerCounts("feed_forward_length", MAX_WIDTH, layers);
  return widths.map((width) => ({ kind: "dense", width, activation, gateAndUp }));
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

/** Position 0 has no hidden state before it, so that a draft head has no row for it. */
export const FIRST_DRAFT_POSITION = 1;

/** The number of the block that is a draft head; undefined if the file has none, or only a part of it. */
export function readDraftBlock(source: ModelSource, reader: HyperParameterReader): number | undefined {
  const block = readLayerCount(source, reader);
  const has = (name: string): boolean => source.tensors.has(source.fileName(`blk.${block}.${name}.weight`));
  return has("nextn.eh_proj") && has("attn_norm") ? block : undefined;
}

/**
 * Number of computed layers: blocks at the end of the file that only predict further tokens (NextN) are not computed.
 */
export function readLayerCount(source: ModelSource, reader: HyperParameterReader): number {
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
export function readVocabularySize({ metadata, tensors, keyPrefix, fileName }: ModelSource): number {
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
  const scaling = readScaling(reader, contextLength);
  const factors =
    reader.text("rope.scaling.type") === LONGROPE ? longRopeFactors(scaling.originalContext) : traits.ropeFactors;
  return {
    style: hasSections(reader) ? traits.sectionedRopeStyle : traits.ropeStyle,
    base: reader.optionalPositive("rope.freq_base") ?? DEFAULT_ROPE_BASE,
    rotaryWidth,
    scaling,
    ...(factors === undefined ? {} : { factors }),
  };
}

/** The tensors with divisors for contexts up to the original length, and for longer ones. */
export function longRopeFactors(originalContext: number): LongRopeFactors {
  return { long: "rope_factors_long.weight", short: "rope_factors_short.weight", originalContext };
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
 * The keys `rope.scaling.yarn_*` are ignored: converters write them for every family, but llama.cpp reads them only for a
 * few, which read them on their own, and uses YaRN's default numbers for the others.
 */
function readScaling(reader: HyperParameterReader, contextLength: number): RopeScaling {
  const stated = reader.text("rope.scaling.type") ?? "linear";
  // Longrope is linear with divisors for each pair.
  const kind = stated === LONGROPE ? "linear" : stated;
  if (kind !== "none" && kind !== "linear" && kind !== "yarn") {
    throw unsupported(
      reader.prefix,
      `rope scaling "${kind}" is not supported; supported are none, linear, yarn and longrope`,
      { scaling: kind },
    );
  }
  const statedFactor =
    reader.optionalNonNegative("rope.scaling.factor") ?? reader.optionalNonNegative("rope.scale_linear") ?? 0;
  // Files write 0 for "not scaled".
  const factor = kind === "none" || statedFactor === 0 ? 1 : statedFactor;
  return {
    kind,
    factor,
    originalContext: reader.optionalCount("rope.scaling.original_context_length", MAX_CONTEXT) ?? contextLength,
    magnitude: attentionFactor(reader) * (kind === "yarn" ? yarnMagnitude(factor) : 1),
  };
}

/** Multiplies rotated values under every kind of scaling. */
export function attentionFactor(reader: HyperParameterReader): number {
  return reader.optionalPositive("rope.scaling.attn_factor") ?? 1;
}

/** YaRN sharpens attention a little as the context grows, and not at all if it shrinks. */
export function yarnMagnitude(factor: number, slope = 0.1): number {
  return 1 + slope * Math.log(Math.max(1, factor));
}
