// What a model family is to the rest of the engine: how to read its hyper-parameters and how to write its graph.
// Every trait is a required field, so that a new family states its rope style, norms and biases instead of
// inheriting somebody else's.

import type { GraphBuilder } from "../graph/builder.js";
import type { RopeStyle } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import type { Shape } from "../tensor/descriptor.js";

export interface RopeScaling {
  readonly kind: "none" | "linear" | "yarn";
  /** How many times longer than the original the stretched context is. */
  readonly factor: number;
  /** The context the model was first trained with. */
  readonly originalContext: number;
  /** Multiplies the rotated values, whatever the kind. */
  readonly attentionFactor: number;
}

export interface RopeParameters {
  readonly style: RopeStyle;
  readonly base: number;
  readonly rotaryWidth: number;
  readonly scaling: RopeScaling;
}

export interface HyperParameters {
  readonly architecture: string;
  readonly blockCount: number;
  readonly embeddingWidth: number;
  readonly feedForwardWidth: number;
  readonly headCount: number;
  readonly kvHeadCount: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  readonly contextLength: number;
  readonly vocabularySize: number;
  readonly normEpsilon: number;
  readonly rope: RopeParameters;
}

export interface ArchitectureTraits {
  readonly ropeStyle: RopeStyle;
  /** The style in files that say `rope.dimension_sections`, as multimodal ones do. */
  readonly sectionedRopeStyle: RopeStyle;
  /** `before`: x + f(norm(x)). `before-and-after`: x + norm(f(norm(x))). */
  readonly normPlacement: "before" | "before-and-after";
  /** Whether each head's query and key are normalised before the rotation. */
  readonly queryKeyNorm: boolean;
  /** One product for gate and one for up, or one product whose first half is the gate. */
  readonly feedForward: "gate-and-up" | "fused";
  /** Whether rotation may cover only the first part of a head. */
  readonly partialRotary: boolean;
  /** The tensor with per-pair divisors of the rope frequencies, where the family may have one. */
  readonly ropeFactors: string | undefined;
}

/** The tensors of a file, as far as reading hyper-parameters needs them. */
export type TensorIndex = ReadonlyMap<string, { readonly shape: Shape }>;

export interface ModelSource {
  /** The family's name, stated by the file or found by its tensors. */
  readonly architecture: string;
  readonly metadata: GgufMetadata;
  readonly tensors: TensorIndex;
  /** Prefix of the hyper-parameter keys; the architecture's name but for files that do not say it. */
  readonly keyPrefix: string;
  /** The name a tensor has in this file, for its usual GGUF name. */
  readonly fileName: (name: string) => string;
}

export interface ArchitectureDescriptor {
  readonly name: string;
  readonly traits: ArchitectureTraits;
  readHyperParameters(source: ModelSource): HyperParameters;
  buildGraph(graph: GraphBuilder, parameters: HyperParameters): Program;
  /** For files that do not name their architecture: whether these tensors look like this family. */
  looksLike(has: (name: string) => boolean): boolean;
}
