// Which layers of a model have a sliding window: by a period, or by a list in the file with one entry for each layer.

import type { HyperParameterReader } from "./hyper-parameter-reader.js";
import { attentionFactor } from "./hyper-parameters.js";
import type { AttentionSpec, RopeScaling } from "./layer.js";

const PATTERN = "attention.sliding_window_pattern";
const MAX_PERIOD = 4096;

interface WindowPattern {
  readonly layers: number;
  /** The family's default period, if the file states none. */
  readonly period: number;
  /** Whether a list in the file is used; for most families with a period, converters write equivalent lists. */
  readonly list: boolean;
}

/**
 * True for layers with a window. With a period p, the last of every p layers has none; 1 means no windows at all and 0
 * windows on every layer.
 */
export function windowLayers(
  reader: HyperParameterReader,
  { layers, period, list }: WindowPattern,
): readonly boolean[] {
  const stated = reader.isArray(PATTERN) ? undefined : reader.optionalNonNegative(PATTERN);
  if (stated !== undefined && (!Number.isInteger(stated) || stated > MAX_PERIOD))
    reader.refuse(PATTERN, `a whole number from 0 to ${MAX_PERIOD}`, String(stated));
  if (list && reader.isArray(PATTERN)) return Array.from(reader.layerList(PATTERN, layers), (flag) => flag !== 0);
  const every = stated ?? period;
  return Array.from({ length: layers }, (_, layer) => every === 0 || layer % every < every - 1);
}

/** The rotation of window layers if the file states a rope base for them; otherwise they rotate like the others. */
export function windowRope(reader: HyperParameterReader, { rope }: AttentionSpec): Pick<AttentionSpec, "rope"> {
  const base = reader.optionalPositive("rope.freq_base_swa");
  return rope === undefined || base === undefined ? {} : { rope: { ...rope, base } };
}

/** The scaling of window layers that are not stretched for longer contexts. */
export function unscaled(reader: HyperParameterReader, scaling: RopeScaling): RopeScaling {
  return { ...scaling, factor: 1, magnitude: attentionFactor(reader) };
}
