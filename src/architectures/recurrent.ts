// Reads the numbers of recurrent layers from GGUF metadata.

import type { ModelSource } from "./descriptor.js";
import type { HyperParameterReader } from "./hyper-parameter-reader.js";
import { MAX_WIDTH, readLayerCount } from "./hyper-parameters.js";
import type { DeltaNetSpec, Mamba2Spec, MixerSpec, ShortConvSpec } from "./layer.js";

/** Most tokens that a convolution may read. */
const MAX_TAPS = 64;
/** Most elements of the matrices of one layer, far above any published model. */
const MAX_STATE = 1 << 28;

/** The gated delta nets of a file. */
export function readDeltaNet(reader: HyperParameterReader, keyHeadOrder: DeltaNetSpec["keyHeadOrder"]): DeltaNetSpec {
  const headWidth = reader.count("ssm.state_size", MAX_WIDTH);
  const keyHeads = reader.count("ssm.group_count", MAX_WIDTH);
  const valueHeads = reader.count("ssm.time_step_rank", MAX_WIDTH);
  const inner = reader.count("ssm.inner_size", MAX_WIDTH);
  if (inner !== valueHeads * headWidth)
    reader.refuse("ssm.inner_size", `${valueHeads * headWidth} (time_step_rank × state_size)`, String(inner));
  if (valueHeads % keyHeads !== 0)
    reader.refuse("ssm.group_count", `a divisor of ${valueHeads} (time_step_rank)`, String(keyHeads));
  refuseLarge(reader, inner, headWidth);
  return {
    kind: "delta-net",
    keyHeads,
    valueHeads,
    headWidth,
    taps: readTaps(reader, "ssm.conv_kernel"),
    keyHeadOrder,
  };
}

/** The Mamba-2 layers of a file. */
export function readMamba2(reader: HyperParameterReader): Mamba2Spec {
  const stateWidth = reader.count("ssm.state_size", MAX_WIDTH);
  const groups = reader.count("ssm.group_count", MAX_WIDTH);
  const heads = reader.count("ssm.time_step_rank", MAX_WIDTH);
  const inner = reader.count("ssm.inner_size", MAX_WIDTH);
  if (inner % heads !== 0) reader.refuse("ssm.time_step_rank", `a divisor of ${inner} (inner_size)`, String(heads));
  if (heads % groups !== 0) reader.refuse("ssm.group_count", `a divisor of ${heads} (time_step_rank)`, String(groups));
  if (inner + 2 * groups * stateWidth > MAX_WIDTH)
    reader.refuse("ssm.state_size", `rows of at most ${MAX_WIDTH}`, `${inner} + 2 × ${groups} × ${stateWidth}`);
  refuseLarge(reader, inner, stateWidth);
  const taps = readTaps(reader, "ssm.conv_kernel");
  return { kind: "mamba2", heads, headWidth: inner / heads, groups, stateWidth, taps };
}

/** The short convolutions of a file. */
export function readShortConv(reader: HyperParameterReader): ShortConvSpec {
  return { kind: "short-conv", taps: readTaps(reader, "shortconv.l_cache") };
}

/** Whether a mixer has a recurrent state instead of keys and values. */
export function isRecurrent({ kind }: MixerSpec): boolean {
  return kind !== "attention" && kind !== "latent-attention" && kind !== "none";
}

/** Whether each layer has no KV heads, and so no attention. */
export function layersWithoutKv(source: ModelSource, reader: HyperParameterReader): readonly boolean[] {
  const layers = readLayerCount(source, reader);
  return reader.isArray("attention.head_count_kv")
    ? Array.from(reader.layerList("attention.head_count_kv", layers), (count) => count === 0)
    : Array.from({ length: layers }, () => reader.optionalNonNegative("attention.head_count_kv") === 0);
}

function readTaps(reader: HyperParameterReader, key: string): number {
  const taps = reader.count(key, MAX_TAPS);
  return taps < 2 ? reader.refuse(key, `2 to ${MAX_TAPS}`, String(taps)) : taps;
}

function refuseLarge(reader: HyperParameterReader, inner: number, stateWidth: number): void {
  if (inner * stateWidth > MAX_STATE)
    reader.refuse("ssm.inner_size", `inner_size × state_size of at most ${MAX_STATE}`, `${inner} × ${stateWidth}`);
}
