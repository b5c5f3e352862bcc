// A layer as data: what mixes tokens, what follows it, and the norms around both. A family turns a file's metadata into
// a list of these, and one decoder graph is written over the list, whatever varies from layer to layer.

import type { Activation, ExpertGating, RopeStyle } from "../graph/operation.js";

/** How rotation is extended to contexts longer than the trained one. */
export interface RopeScaling {
  readonly kind: "none" | "linear" | "yarn";
  /** The extended context divided by the original one. */
  readonly factor: number;
  /** The context length that the model was first trained with. */
  readonly originalContext: number;
  /** Multiplies the rotated values. */
  readonly magnitude: number;
  /** YaRN: a pair with more rotations within the original context is kept as trained; absent: 32. */
  readonly betaFast?: number;
  /** YaRN: a pair with fewer rotations within the original context is interpolated; absent: 1. */
  readonly betaSlow?: number;
}

/** Tensors with per-pair divisors of the rope frequencies, chosen by the context that sequences may reach (LongRoPE). */
export interface LongRopeFactors {
  readonly long: string;
  readonly short: string;
  /** Contexts up to this length use `short`. */
  readonly originalContext: number;
}

/** How queries and keys are rotated. Layers that share one object share one table of angles. */
export interface RopeSpec {
  readonly style: RopeStyle;
  readonly base: number;
  /** Number of rotated columns of a head, from the first on. */
  readonly rotaryWidth: number;
  readonly scaling: RopeScaling;
  /** Names of the optional tensors with per-pair divisors of the frequencies. */
  readonly factors?: string | LongRopeFactors;
  /** Pairs that are not rotated. */
  readonly unrotatedPairs?: readonly number[];
}

/** The norms of queries and keys. */
export interface QueryKeyNorm {
  /** Whether each head or the whole row of all heads is normalized. */
  readonly span: "head" | "row";
  readonly place: "before-rope" | "after-rope";
  /** Whether there are weights, `attn_q_norm` and `attn_k_norm`. */
  readonly weighted: boolean;
}

/** Queries of later positions are scaled by 1 + scale × ln(1 + ⌊(position + offset) ÷ length⌋). */
export interface AttentionTemperature {
  readonly scale: number;
  readonly length: number;
  readonly offset: number;
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
  /** No norms if absent. */
  readonly queryKeyNorm?: QueryKeyNorm;
  /** Whether each head's value is normalized, without a weight. */
  readonly valueNorm?: boolean;
  /** Whether the key projection, before norm and rotation, serves as the value too. */
  readonly keysAsValues?: boolean;
  /** The layer whose keys and values are used, for a layer that has none. */
  readonly kvOfLayer?: number;
  /** Sliding window: a token attends to the last `window` positions, its own included; to all positions if absent. */
  readonly window?: number;
  /** Chunked attention: a token attends to the positions from the last multiple of `chunk` on. */
  readonly chunk?: number;
  /** The first position that later ones attend to; 0 if absent. */
  readonly first?: number;
  readonly temperature?: AttentionTemperature;
  /** Soft-cap of the scaled scores. */
  readonly softCap?: number;
  /** Whether `attn_sinks.weight` is part of the softmax. */
  readonly sinks: boolean;
  /**
   * Output gate: `attn_q` has a gate after the query of each head, and the head's result is multiplied by σ(gate). Absent:
   * none.
   */
  readonly outputGate?: boolean;
}

/** Multi-head latent attention (MLA): keys and values of all heads are projections of one cached latent vector. */
export interface LatentAttentionSpec {
  readonly kind: "latent-attention";
  readonly heads: number;
  /** Width of the compressed query; absent if queries are projected directly. */
  readonly queryLatentWidth?: number;
  /** Width of the cached latent vector. */
  readonly latentWidth: number;
  /** Columns of a head that are not rotated; the rotated ones follow. */
  readonly unrotatedWidth: number;
  readonly valueWidth: number;
  readonly scale: number;
  readonly rope: RopeSpec;
  readonly temperature?: AttentionTemperature;
  /** The first position that later ones attend to; 0 if absent. */
  readonly first?: number;
  /**
   * Whether the file has `attn_k_b` and `attn_v_b`, which let attention work on the latent vectors themselves; otherwise
   * `attn_kv_b` expands them to keys and values of each head.
   */
  readonly absorbed: boolean;
}

/** A gated delta net: a recurrent layer with a matrix for each value head. */
export interface DeltaNetSpec {
  readonly kind: "delta-net";
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly headWidth: number;
  /** Number of tokens that the convolution before it reads. */
  readonly taps: number;
  readonly keyHeadOrder: "cyclic" | "grouped";
}

/** Mamba-2: a recurrent layer with a matrix for each head. */
export interface Mamba2Spec {
  readonly kind: "mamba2";
  readonly heads: number;
  readonly headWidth: number;
  readonly groups: number;
  readonly stateWidth: number;
  /** Number of tokens that the convolution before it reads. */
  readonly taps: number;
}

/** A gated short convolution: a recurrent layer whose state is its last inputs. */
export interface ShortConvSpec {
  readonly kind: "short-conv";
  readonly taps: number;
}

/** A layer without a part: a feed-forward network alone, or a mixer alone. */
export interface NoSpec {
  readonly kind: "none";
}

/** A feed-forward network: down(activation(gate(x)) × up(x)). */
export interface DenseSpec {
  readonly kind: "dense";
  readonly width: number;
  readonly activation: Activation;
  /**
   * `fused`: one matmul, `ffn_up`, whose first half is the gate. `same`: `ffn_up` alone, whose result is the gate too, as
   * for relu².
   */
  readonly gateAndUp: "separate" | "fused" | "same";
}

/** A mixture of experts: each token uses the few of them that a router chooses. */
export interface ExpertsSpec {
  readonly kind: "experts";
  readonly count: number;
  readonly used: number;
  /** Width of one expert. */
  readonly width: number;
  /** Width of the experts' inputs and outputs, between `ffn_latent_down` and `ffn_latent_up`; absent: the model's own. */
  readonly latentWidth?: number;
  /** Whether the experts have no gates: the result of up is the gate too, as for relu². Absent: they have. */
  readonly ungated?: boolean;
  readonly activation: Activation;
  readonly gating: ExpertGating;
  readonly renormalize: boolean;
  /** Multiplies the experts' weights. */
  readonly weightScale: number;
  readonly groups: number;
  readonly groupsUsed: number;
  /** Whether an expert's weight scales its input instead of its output. */
  readonly weighsInput: boolean;
  /** An expert that every token uses. */
  readonly shared?: SharedExpertSpec;
}

/** An expert that every token uses. */
export interface SharedExpertSpec {
  readonly width: number;
  /** Whether its output is multiplied by σ(`ffn_gate_inp_shexp` · x). */
  readonly gated: boolean;
}

export type FeedForwardSpec = DenseSpec | ExpertsSpec | NoSpec;

/** Norms by their tensors' names without `.weight`; an absent one is not computed. */
export interface LayerNorms {
  readonly beforeMixer?: string;
  /** Before the mixer's result is added to the residual. */
  readonly afterMixer?: string;
  readonly beforeFeedForward?: string;
  /** Before the feed-forward result is added to the residual. */
  readonly afterFeedForward?: string;
}

/** Where norms stand in a layer, by the names that converters give their tensors. */
export const NORMS = {
  /** x + f(norm(x)) */
  before: { beforeMixer: "attn_norm", beforeFeedForward: "ffn_norm" },
  /** The same, with the name that some converters keep for the second norm. */
  "before, named post_attention_norm": { beforeMixer: "attn_norm", beforeFeedForward: "post_attention_norm" },
  /** x + norm(f(norm(x))) */
  "before-and-after": {
    beforeMixer: "attn_norm",
    afterMixer: "post_attention_norm",
    beforeFeedForward: "ffn_norm",
    afterFeedForward: "post_ffw_norm",
  },
  /** x + norm(f(x)) */
  after: { afterMixer: "post_attention_norm", afterFeedForward: "post_ffw_norm" },
  /** Attention and feed-forward network read one norm: x + f(norm(x)) + g(norm(x)). */
  parallel: { beforeMixer: "attn_norm" },
  /** One norm for the one part of a layer, mixer or feed-forward network. */
  "before, one part": { beforeMixer: "attn_norm", beforeFeedForward: "attn_norm" },
} as const satisfies Readonly<Record<string, LayerNorms>>;

export type NormPlacement = keyof typeof NORMS;

/** What mixes the tokens of a layer. */
export type MixerSpec = AttentionSpec | LatentAttentionSpec | DeltaNetSpec | Mamba2Spec | ShortConvSpec | NoSpec;

/** One layer: attention, feed-forward network and the norms around them. */
export interface LayerSpec<Mixer extends MixerSpec = MixerSpec> {
  readonly mixer: Mixer;
  /** A second mixer, which reads the same norm and whose result is added to the first one's. */
  readonly mixerBeside?: Exclude<MixerSpec, NoSpec>;
  readonly feedForward: FeedForwardSpec;
  /** A mixture of experts beside the feed-forward network. */
  readonly experts?: ExpertsSpec;
  readonly norms: LayerNorms;
  /** Whether the feed-forward network reads the mixer's input instead of its result. */
  readonly parallel?: boolean;
}
