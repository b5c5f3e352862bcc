// A layer as data: what mixes tokens, what follows it, and the norms around both. A family turns a file's metadata into
// a list of these, and one decoder graph is written over the list, whatever varies from layer to layer.

import type { Activation, RopeStyle } from "../graph/operation.js";

/** How rotation is extended to contexts longer than the trained one. */
export interface RopeScaling {
  readonly kind: "none" | "linear" | "yarn";
  /** The extended context divided by the original one. */
  readonly factor: number;
  /** The context length that the model was first trained with. */
  readonly originalContext: number;
  /** Multiplies the rotated values for every kind. */
  readonly attentionFactor: number;
}

/** How queries and keys are rotated. Layers that share one object share one table of angles. */
export interface RopeSpec {
  readonly style: RopeStyle;
  readonly base: number;
  /** Number of rotated columns of a head, from the first on. */
  readonly rotaryWidth: number;
  readonly scaling: RopeScaling;
  /** Name of the optional tensor with per-pair divisors of the frequencies. */
  readonly factors?: string;
}

/** Causal attention over the KV cache. */
export interface AttentionSpec {
  readonly kind: "attention";
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  readonly valueWidth: number;
  /** Multiplies the dot products of queries and keys. */
  readonly scale: number;
  /** No rotation if absent. */
  readonly rope?: RopeSpec;
  /** Whether each head's query and key are normalized before the rotation. */
  readonly queryKeyNorm: boolean;
  /** Sliding window: a token attends to the last `window` positions, its own included; to all positions if absent. */
  readonly window?: number;
  /** Soft-cap of the scaled scores. */
  readonly softCap?: number;
  /** Whether `attn_sinks.weight` is part of the softmax. */
  readonly sinks: boolean;
}

/** A gated feed-forward network: down(activation(gate(x)) × up(x)). */
export interface FeedForwardSpec {
  readonly kind: "dense";
  readonly width: number;
  readonly activation: Activation;
  /** `fused`: one matmul, `ffn_up`, whose first half is the gate. */
  readonly gateAndUp: "separate" | "fused";
}

/** RMS norms by their tensors' names without `.weight`; an absent one is not computed. */
export interface LayerNorms {
  readonly beforeMixer?: string;
  /** Before the mixer's result is added to the residual. */
  readonly afterMixer?: string;
  readonly beforeFeedForward?: string;
  /** Before the feed-forward result is added to the residual. */
  readonly afterFeedForward?: string;
}

/** One layer: attention, feed-forward network and the norms around them. */
export interface LayerSpec {
  readonly mixer: AttentionSpec;
  readonly feedForward: FeedForwardSpec;
  readonly norms: LayerNorms;
}
