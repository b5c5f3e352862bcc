// The shapes of synthetic models: the numbers of published models, from their own configuration files. Weights are
// random, so a file of such a shape costs as much to run as the real model and generates nonsense.

import type { GgufEntry } from "../../gguf/entry.js";
import { RECENT_SHAPES } from "./recent-shapes.js";

/** The kind and size of a vocabulary. */
export interface VocabularyShape {
  /** The tokenizer: byte-level BPE, or SentencePiece (`spm`). */
  readonly kind: "bpe" | "spm";
  /** The pre-tokenizer's name in GGUF; BPE only. */
  readonly pre?: string;
  readonly size: number;
  /** The number of merges; BPE only. A token may have several merges. */
  readonly merges?: number;
  /** Control tokens by id; they and the ids after the last ordinary token are not words. */
  readonly control: Readonly<Record<number, string>>;
  readonly bos: number;
  readonly eos: number;
  readonly addsBos: boolean;
}

/** The hyper-parameters of a synthetic model. Its tensors are those that the architecture's graph asks for. */
export interface ModelShape {
  readonly title: string;
  /** As in `general.architecture`. */
  readonly architecture: string;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Width of a key; absent: the embedding width divided by the heads. */
  readonly headWidth?: number;
  /** Width of a value; absent: that of a key. */
  readonly valueWidth?: number;
  /** Rotated columns of a head; absent: all. */
  readonly rotaryWidth?: number;
  readonly feedForward: number;
  readonly context: number;
  readonly normEpsilon: number;
  readonly ropeBase: number;
  /** Llama 3's scaling of slow rope frequencies, stored as one divisor per pair. */
  readonly ropeScaling?: {
    readonly factor: number;
    readonly low: number;
    readonly high: number;
    readonly original: number;
  };
  /** Whether the embedding table is also the output matrix. */
  readonly tied: boolean;
  /** Further keys, without the architecture's prefix; they replace those above. */
  readonly keys?: (shape: Pick<ModelShape, "layers">) => readonly GgufEntry[];
  /** Optional tensors that the file has. */
  readonly tensors?: readonly string[];
  /** Optional tensors that a layer has, without the layer's prefix. */
  readonly layerTensors?: (layer: number) => readonly string[];
  readonly vocabulary: VocabularyShape;
}

const ATTENTION_BIASES = ["attn_q.bias", "attn_k.bias", "attn_v.bias"];

const LLAMA3_VOCABULARY: VocabularyShape = {
  kind: "bpe",
  pre: "llama-bpe",
  size: 128_256,
  merges: 280_147,
  control: {
    128_000: "<|begin_of_text|>",
    128_001: "<|end_of_text|>",
    128_006: "<|start_header_id|>",
    128_007: "<|end_header_id|>",
    128_009: "<|eot_id|>",
  },
  bos: 128_000,
  eos: 128_001,
  addsBos: true,
};

const SENTENCE_PIECE_VOCABULARY: VocabularyShape = {
  kind: "spm",
  size: 32_000,
  control: { 1: "<s>", 2: "</s>" },
  bos: 1,
  eos: 2,
  addsBos: true,
};

/** The shapes of published models by name. */
export const SHAPES = {
  "llama3-1b": {
    title: "Llama-3.2-1B",
    architecture: "llama",
    layers: 16,
    width: 2048,
    heads: 32,
    kvHeads: 8,
    feedForward: 8192,
    context: 131_072,
    normEpsilon: 1e-5,
    ropeBase: 500_000,
    ropeScaling: { factor: 32, low: 1, high: 4, original: 8192 },
    tied: true,
    vocabulary: LLAMA3_VOCABULARY,
  },
  "llama3-8b": {
    title: "Llama-3-8B",
    architecture: "llama",
    layers: 32,
    width: 4096,
    heads: 32,
    kvHeads: 8,
    feedForward: 14_336,
    context: 8192,
    normEpsilon: 1e-5,
    ropeBase: 500_000,
    tied: false,
    vocabulary: LLAMA3_VOCABULARY,
  },
  "qwen2-0.5b": {
    title: "Qwen2-0.5B",
    architecture: "qwen2",
    layers: 24,
    width: 896,
    heads: 14,
    kvHeads: 2,
    feedForward: 4864,
    context: 32_768,
    normEpsilon: 1e-6,
    ropeBase: 1_000_000,
    tied: true,
    layerTensors: () => ATTENTION_BIASES,
    vocabulary: {
      kind: "bpe",
      pre: "qwen2",
      size: 151_936,
      merges: 151_387,
      control: { 151_643: "<|endoftext|>", 151_644: "<|im_start|>", 151_645: "<|im_end|>" },
      bos: 151_643,
      eos: 151_643,
      addsBos: false,
    },
  },
  tinyllama: {
    title: "TinyLlama-1.1B",
    architecture: "llama",
    layers: 22,
    width: 2048,
    heads: 32,
    kvHeads: 4,
    feedForward: 5632,
    context: 2048,
    normEpsilon: 1e-5,
    ropeBase: 10_000,
    tied: false,
    vocabulary: SENTENCE_PIECE_VOCABULARY,
  },
  "mistral-7b": {
    title: "Mistral-7B",
    architecture: "llama",
    layers: 32,
    width: 4096,
    heads: 32,
    kvHeads: 8,
    feedForward: 14_336,
    context: 32_768,
    normEpsilon: 1e-5,
    ropeBase: 10_000,
    tied: false,
    vocabulary: SENTENCE_PIECE_VOCABULARY,
  },
  ...RECENT_SHAPES,
} as const satisfies Readonly<Record<string, ModelShape>>;

/** The names of the shapes. */
export const SHAPE_NAMES = Object.keys(SHAPES) as readonly (keyof typeof SHAPES)[];

/** One divisor per rope pair: 1 for fast rotations, the factor for slow ones, and a smooth transition between. */
export function ropeDivisors({ width, heads, headWidth = width / heads, ropeBase, ropeScaling }: ModelShape): number[] {
  const pairs = headWidth / 2;
  if (ropeScaling === undefined) return Array.from({ length: pairs }, () => 1);
  const { factor, low, high, original } = ropeScaling;
  return Array.from({ length: pairs }, (_, pair) => {
    const wavelengthTokens = 2 * Math.PI * ropeBase ** (pair / pairs);
    const share = Math.min(1, Math.max(0, (original / wavelengthTokens - low) / (high - low)));
    return 1 / (share + (1 - share) / factor);
  });
}
