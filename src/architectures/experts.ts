// Reads the numbers of mixtures of experts from GGUF metadata. Families differ in which keys count: converters write some
// that llama.cpp ignores for a family, and then they are ignored here too.

import type { ExpertGating } from "../graph/operation.js";
import type { HyperParameterReader } from "./hyper-parameter-reader.js";
import { type FeedForwardReader, MAX_WIDTH, readDense } from "./hyper-parameters.js";
import type { ExpertsSpec, SharedExpertSpec } from "./layer.js";

const MAX_EXPERTS = 1 << 16;
/** Numbers of gating functions in `expert_gating_func`, from 1 on. */
const GATINGS: readonly ExpertGating[] = ["softmax", "sigmoid", "softmax-selected", "sqrt-softplus"];

/** What a family's mixtures of experts have in common. */
export interface ExpertTraits {
  /** The key with the width of an expert. */
  readonly widthKey: "expert_feed_forward_length" | "feed_forward_length";
  /** Whether, without that key, the experts used by a token share `feed_forward_length`. */
  readonly sharesWidth?: boolean;
  readonly gating: ExpertGating;
  /** Whether `expert_gating_func` is read. */
  readonly gatingKey: boolean;
  /** `key`: as `expert_weights_norm` says. */
  readonly renormalize: boolean | "key";
  /** Whether `expert_weights_scale` is read. */
  readonly weightScaleKey: boolean;
  readonly weighsInput: boolean;
  /** Reads the shared expert, given the width of an expert; undefined if there is none. */
  readonly shared: ((reader: HyperParameterReader, width: number) => SharedExpertSpec | undefined) | undefined;
}

/** The mixture of experts of a file, without its activation; undefined if it has no experts. */
export function readExperts(
  reader: HyperParameterReader,
  traits: ExpertTraits,
): Omit<ExpertsSpec, "activation"> | undefined {
  if ((reader.optionalNonNegative("expert_count") ?? 0) === 0) return undefined;
  const count = reader.count("expert_count", MAX_EXPERTS);
  const used = reader.count("expert_used_count", count);
  const width = readWidth(reader, traits, used);
  const shared = traits.shared?.(reader, width);
  const weightScale = traits.weightScaleKey ? (reader.optionalNonNegative("expert_weights_scale") ?? 0) : 0;
  return {
    kind: "experts",
    count,
    used,
    width,
    gating: traits.gatingKey ? readGating(reader, traits.gating) : traits.gating,
    renormalize: traits.renormalize === "key" ? (reader.flag("expert_weights_norm") ?? false) : traits.renormalize,
    weightScale: weightScale === 0 ? 1 : weightScale,
    ...readGroups(reader, count, used),
    weighsInput: traits.weighsInput,
    ...(shared === undefined ? {} : { shared }),
  };
}

function readWidth(
  reader: HyperParameterReader,
  { widthKey, sharesWidth = false }: ExpertTraits,
  used: number,
): number {
  const stated = reader.optionalCount(widthKey, MAX_WIDTH);
  if (stated !== undefined) return stated;
  if (!sharesWidth) return reader.count(widthKey, MAX_WIDTH);
  const total = reader.count("feed_forward_length", MAX_WIDTH);
  if (total < used)
    reader.refuse("feed_forward_length", `at least ${used}, which the experts in use share`, String(total));
  return Math.floor(total / used);
}

function readGating(reader: HyperParameterReader, otherwise: ExpertGating): ExpertGating {
  const number = reader.optionalNonNegative("expert_gating_func") ?? 0;
  if (number === 0) return otherwise;
  return (
    GATINGS[number - 1] ??
    reader.refuse("expert_gating_func", `a whole number from 0 to ${GATINGS.length}`, `${number}`)
  );
}

/** Groups of experts, of which only the best are used. */
function readGroups(
  reader: HyperParameterReader,
  count: number,
  used: number,
): { readonly groups: number; readonly groupsUsed: number } {
  const stated = reader.optionalNonNegative("expert_group_count") ?? 0;
  if (stated <= 1) return { groups: 1, groupsUsed: 1 };
  const groups = reader.count("expert_group_count", count);
  if (count % groups !== 0) reader.refuse("expert_group_count", `a divisor of ${count} (expert_count)`, String(groups));
  const groupsUsed = reader.count("expert_group_used_count", groups);
  const reachable = groupsUsed * (count / groups);
  if (used > reachable)
    reader.refuse("expert_used_count", `at most the ${reachable} experts of ${groupsUsed} groups`, String(used));
  return { groups, groupsUsed };
}

/** A shared expert as wide as `expert_shared_count` experts. */
export function sharedByCount(reader: HyperParameterReader, width: number): SharedExpertSpec | undefined {
  const count = reader.optionalNonNegative("expert_shared_count") ?? 0;
  return count === 0
    ? undefined
    : { width: width * reader.count("expert_shared_count", Math.floor(MAX_WIDTH / width)), gated: false };
}

/** A shared expert as wide as `expert_shared_feed_forward_length`. */
export function sharedByWidth(reader: HyperParameterReader): SharedExpertSpec | undefined {
  const width = reader.optionalNonNegative("expert_shared_feed_forward_length") ?? 0;
  return width === 0
    ? undefined
    : { width: reader.count("expert_shared_feed_forward_length", MAX_WIDTH), gated: false };
}

/** Experts in the layers that `isExperts` names, by default all; files without experts have dense networks. */
export function expertsOrDense(
  traits: ExpertTraits,
  isExperts: (reader: HyperParameterReader) => (layer: number) => boolean = () => () => true,
): FeedForwardReader {
  return (reader, layers, decoderTraits) => {
    const experts = readExperts(reader, traits);
    if (experts === undefined) return readDense(reader, layers, decoderTraits);
    const chosen = isExperts(reader);
    const spec: ExpertsSpec = { ...experts, activation: decoderTraits.activation };
    const indices = Array.from({ length: layers }, (_, layer) => layer);
    if (indices.every(chosen)) return indices.map(() => spec);
    const dense = readDense(reader, layers, decoderTraits);
    return indices.map((layer) => (chosen(layer) ? spec : dense[layer]));
  };
}

/** Experts from the layer `leading_dense_block_count` on. */
export function afterLeadingDense(reader: HyperParameterReader): (layer: number) => boolean {
  const leading = reader.optionalNonNegative("leading_dense_block_count") ?? 0;
  return (layer) => layer >= leading;
}
