// A model family as the rest of the engine sees it: how to read its hyper-parameters and how to build its graph. Every
// trait is a required field, so that a new family states its rope style, norms and feed-forward instead of inheriting
// another's.

import type { GraphBuilder } from "../graph/builder.js";
import type { Activation, RopeStyle } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import type { GgufMetadata } from "../gguf/metadata.js";
import type { Shape } from "../tensor/descriptor.js";
import type { AttentionSpec, DenseSpec, LayerSpec, NormPlacement, QueryKeyNorm } from "./layer.js";

/** The numbers that shape a model, read from its metadata and checked. */
export interface HyperParameters {
  readonly architecture: string;
  readonly embeddingWidth: number;
  readonly contextLength: number;
  readonly vocabularySize: number;
  /** The kind of the norms around attention and feed-forward networks. */
  readonly norm: "rms" | "layer";
  readonly normEpsilon: number;
  /** Multiplies the rows of the embedding table; 1 if absent. */
  readonly embeddingScale?: number;
  /** Multiplies the results of attention and feed-forward networks before they are added to the residual; 1 if absent. */
  readonly residualScale?: number;
  /** Multiplies the logits; 1 if absent. */
  readonly logitScale?: number;
  /** Soft-cap of the logits. */
  readonly logitSoftCap?: number;
  /** The name of the last norm without `.weight`; `output_norm` if absent. */
  readonly outputNorm?: string;
  /** Width of the embeddings that each layer adds to its own input; none if absent. */
  readonly layerEmbeddingWidth?: number;
  /** One entry per computed layer, in order. */
  readonly layers: readonly LayerSpec[];
  /** The block after the layers that drafts a further token (MTP), if the file has one that can be run. */
  readonly draftHead?: DraftHeadSpec;
}

/** A draft head (MTP, NextN): one more layer, which reads the last hidden state and the token after it. */
export interface DraftHeadSpec {
  /** The number of its block in the file. */
  readonly block: number;
  readonly layer: LayerSpec;
  /** The kind of its last norm. */
  readonly norm: "rms" | "layer";
  readonly normEpsilon: number;
}

/** Hyper-parameters of a model whose layers are all attention over keys and values. */
export interface AttentionParameters extends HyperParameters {
  readonly layers: readonly LayerSpec<AttentionSpec>[];
}

/** What all layers of a family have in common, for families with the usual metadata. */
export interface DecoderTraits {
  readonly ropeStyle: RopeStyle;
  /** The style in files that have `rope.dimension_sections`, as multimodal ones do. */
  readonly sectionedRopeStyle: RopeStyle;
  /** Whether rotation may cover only the first part of a head. */
  readonly partialRotary: boolean;
  /** The tensor with per-pair divisors of the rope frequencies, if files of the family may have one. */
  readonly ropeFactors: string | undefined;
  readonly norm: HyperParameters["norm"];
  readonly normPlacement: NormPlacement;
  /** The norms of queries and keys, if the family has any. */
  readonly queryKeyNorm: QueryKeyNorm | undefined;
  readonly activation: Activation;
  readonly gateAndUp: DenseSpec["gateAndUp"];
}

/** The tensors of a file, as far as reading hyper-parameters needs them. */
export type TensorIndex = ReadonlyMap<string, { readonly shape: Shape }>;

/** The parts of a file from which hyper-parameters are read. */
export interface ModelSource {
  /** The family's name, stated by the file or detected by its tensors. */
  readonly architecture: string;
  readonly metadata: GgufMetadata;
  readonly tensors: TensorIndex;
  /**
   * Prefix of the hyper-parameter keys: the architecture's name, or the prefix found in a file that does not state it.
   */
  readonly keyPrefix: string;
  /** The name of a tensor in this file, given its usual GGUF name. */
  readonly fileName: (name: string) => string;
}

/** A model family: reads hyper-parameters and builds the graph. */
export interface ArchitectureDescriptor {
  readonly name: string;
  readHyperParameters(source: ModelSource): HyperParameters;
  buildGraph(graph: GraphBuilder, parameters: HyperParameters): Program;
  /**
   * Whether the tensors suggest this family, for files that do not name their architecture; absent for families whose
   * files always do.
   */
  looksLike?(has: (name: string) => boolean): boolean;
}
