// Ministral 3 and Devstral 2: LLaMA's layer with YaRN by the file's own numbers and an attention temperature for long contexts.

import { buildDecoder } from "../decoder.js";
import type { ArchitectureDescriptor, DecoderTraits, HyperParameters, ModelSource } from "../descriptor.js";
import { type ExpertTraits, expertsOrDense } from "../experts.js";
import { HyperParameterReader } from "../hyper-parameter-reader.js";
import { attentionFactor, readDecoderParameters, withMixers, yarnMagnitude } from "../hyper-parameters.js";
import type { AttentionTemperature, RopeScaling, RopeSpec } from "../layer.js";

const traits: DecoderTraits = {
  ropeStyle: "adjacent",
  sectionedRopeStyle: "adjacent",
  norm: "rms",
  normPlacement: "before",
  queryKeyNorm: undefined,
  activation: "silu",
  gateAndUp: "separate",
  partialRotary: true,
  ropeFactors: "rope_freqs.weight",
};

const experts: ExpertTraits = {
  widthKey: "feed_forward_length",
  gating: "softmax",
  gatingKey: false,
  renormalize: true,
  weightScaleKey: false,
  weighsInput: false,
  shared: undefined,
};

function readHyperParameters(source: ModelSource): HyperParameters {
  const reader = new HyperParameterReader(source);
  const parameters = readDecoderParameters(source, traits, expertsOrDense(experts));
  const shared = parameters.layers[0].mixer.rope;
  const rope: RopeSpec | undefined =
    shared === undefined ? undefined : { ...shared, scaling: readYarn(reader, shared.scaling) };
  const temperature = readTemperature(reader, rope);
  return withMixers(parameters, (mixer) => ({
    ...mixer,
    ...(rope === undefined ? {} : { rope }),
    ...(temperature === undefined ? {} : { temperature }),
  }));
}

function readYarn(reader: HyperParameterReader, scaling: RopeScaling): RopeScaling {
  if (scaling.kind !== "yarn") return scaling;
  const slope = reader.optionalNonNegative("rope.scaling.yarn_log_multiplier") ?? 0;
  const betaFast = reader.optionalPositive("rope.scaling.yarn_beta_fast");
  const betaSlow = reader.optionalPositive("rope.scaling.yarn_beta_slow");
  return {
    ...scaling,
    ...(betaFast === undefined ? {} : { betaFast }),
    ...(betaSlow === undefined ? {} : { betaSlow }),
    ...(slope === 0
      ? {}
      : {
          magnitude:
            (attentionFactor(reader) * yarnMagnitude(scaling.factor)) / yarnMagnitude(scaling.factor, 0.1 * slope),
        }),
  };
}

function readTemperature(reader: HyperParameterReader, rope: RopeSpec | undefined): AttentionTemperature | undefined {
  const scale = reader.optionalNonNegative("attention.temperature_scale") ?? 0;
  if (scale === 0 || rope === undefined) return undefined;
  return { scale, length: rope.scaling.originalContext, offset: 0 };
}

/** The architecture `mistral3`. */
export const mistral3: ArchitectureDescriptor = {
  name: "mistral3",
  readHyperParameters,
  buildGraph: buildDecoder,
};
