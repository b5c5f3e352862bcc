// Interleaved rope sections of multimodal models (IMROPE): pairs take the positions time, height and width in turn. A text token has
// the same position in all three, and 0 in the extra section, which has the pairs that are left over.

import type { HyperParameters, ModelSource } from "./descriptor.js";
import { HyperParameterReader } from "./hyper-parameter-reader.js";
import type { LayerSpec, RopeSpec } from "./layer.js";

const SECTIONS = "rope.dimension_sections";

/** The parameters with pairs of the extra section that text does not rotate. */
export function withInterleavedSections(source: ModelSource, parameters: HyperParameters): HyperParameters {
  const sections = new HyperParameterReader(source).numbers(SECTIONS);
  if (sections === undefined) return parameters;
  const ropes = new Map<RopeSpec, RopeSpec>();
  const sectioned = (rope: RopeSpec): RopeSpec => {
    const known = ropes.get(rope) ?? { ...rope, unrotatedPairs: extraPairs(sections, rope.rotaryWidth / 2) };
    ropes.set(rope, known);
    return known;
  };
  const sectionedLayer = ({ mixer, ...layer }: LayerSpec): LayerSpec => ({
    ...layer,
    mixer: "rope" in mixer ? { ...mixer, rope: sectioned(mixer.rope) } : mixer,
  });
  const { draftHead, layers } = parameters;
  return {
    ...parameters,
    layers: layers.map(sectionedLayer),
    ...(draftHead === undefined ? {} : { draftHead: { ...draftHead, layer: sectionedLayer(draftHead.layer) } }),
  };
}

function extraPairs(sections: Float64Array, pairs: number): readonly number[] {
  const period = sections.reduce((total, count) => total + count, 0);
  if (!(period > 0)) return [];
  return Array.from({ length: pairs }, (_, pair) => pair).filter((pair) => {
    const sector = pair % period;
    return sector >= 3 * (sections[sector % 3] ?? 0);
  });
}
