// Models with seeded random weights, as data that the GGUF writer takes. Sizes of the weights keep activations sane and
// logits and attention spread, so that a wrong rotation, scale or name shows. The same spec gives the same bytes
// on every machine; `widened` gives the same model in f32, which a peer computes without rounding activations.

import { arr, f32, str, u32, type GgufEntry } from "../../../src/gguf/entry.js";
import type { GgufPlan, GgufWriterTensor } from "../../../src/gguf/writer.js";
import { decodeTensor, encodeTensor } from "../../../src/quant/codec.js";
import type { SupportedTypeName } from "../../../src/quant/layout.js";
import { Dice } from "../../support/dice.js";
import { randomTensor } from "./random-blocks.js";

export interface RandomModelSpec {
  readonly seed: number;
  readonly architecture: "llama" | "qwen2" | "qwen3" | "glm4" | "gemma2" | "gemma3";
  /** Types of the matrices, dealt out in turn; norms, biases and scales are F32. */
  readonly types: readonly SupportedTypeName[];
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Written as key and value length; by default width ÷ heads, and not written. */
  readonly headWidth?: number;
  readonly feedForward: number;
  readonly layers: number;
  readonly vocabulary: number;
  readonly context: number;
  readonly epsilon: number;
  readonly ropeBase?: number;
  /** Columns of a head that are rotated; by default all, and not written. */
  readonly rotaryWidth?: number;
  /** Frequency divisors in `rope_freqs.weight`. */
  readonly ropeFactors?: boolean;
  /** No output matrix: the embedding table serves. */
  readonly tied?: boolean;
  readonly fusedQkv?: boolean;
  /** Which products have a bias: `attn_q`, `output` … */
  readonly biases?: readonly string[];
  /** Which products have a one-element scale. */
  readonly scales?: readonly string[];
  /** Further blocks at the end that predict later tokens and are not run. */
  readonly predictingLayers?: number;
  /** In place of, or beside, the keys above. */
  readonly metadata?: readonly GgufEntry[];
}

/** A tensor whose bytes are there already. */
export interface MadeTensor extends GgufWriterTensor {
  readonly type: SupportedTypeName;
  readonly data: Uint8Array;
}

export interface RandomModel extends GgufPlan {
  readonly tensors: readonly MadeTensor[];
}

/** Deviation of the logits: wide enough to tell tokens apart, narrow enough for f32. */
const LOGIT_SIZE = 3;
/** Queries and keys larger than usual, so that attention is sharp and feels the rotation. */
const SHARP_SIZE = 1.7;
const BIAS_SIZE = 0.3;

export function randomModel(spec: RandomModelSpec): RandomModel {
  const own = spec.metadata ?? [];
  const usual = hyperParameters(spec).filter(({ key }) => !own.some((entry) => entry.key === key));
  return { metadata: [...usual, ...own, ...byteVocabulary(spec.vocabulary)], tensors: new TensorMaker(spec).all() };
}

/** The same values, in f32. */
export function widened(model: RandomModel): RandomModel {
  const tensors = model.tensors.map((tensor): MadeTensor => {
    if (tensor.type === "F32") return tensor;
    const elements = tensor.shape.reduce((total, dimension) => total * dimension, 1);
    return { ...tensor, type: "F32", data: encodeTensor("F32", decodeTensor(tensor.type, tensor.data, elements)) };
  });
  return { ...model, tensors };
}

/** Token ids to feed such a model: seeded, and not one of them special. */
export function randomTokens(seed: number, count: number): Int32Array {
  const dice = new Dice(seed);
  return Int32Array.from({ length: count }, () => dice.below(BYTES));
}

const BYTES = 256;

function hyperParameters(spec: RandomModelSpec): GgufEntry[] {
  const { architecture: prefix, headWidth, rotaryWidth, ropeBase, predictingLayers = 0 } = spec;
  return [
    str("general.architecture", prefix),
    u32(`${prefix}.block_count`, spec.layers + predictingLayers),
    u32(`${prefix}.context_length`, spec.context),
    u32(`${prefix}.embedding_length`, spec.width),
    u32(`${prefix}.feed_forward_length`, spec.feedForward),
    u32(`${prefix}.attention.head_count`, spec.heads),
    u32(`${prefix}.attention.head_count_kv`, spec.kvHeads),
    f32(`${prefix}.attention.layer_norm_rms_epsilon`, spec.epsilon),
    ...(headWidth === undefined
      ? []
      : [u32(`${prefix}.attention.key_length`, headWidth), u32(`${prefix}.attention.value_length`, headWidth)]),
    ...(rotaryWidth === undefined ? [] : [u32(`${prefix}.rope.dimension_count`, rotaryWidth)]),
    ...(ropeBase === undefined ? [] : [f32(`${prefix}.rope.freq_base`, ropeBase)]),
    ...(predictingLayers === 0 ? [] : [u32(`${prefix}.nextn_predict_layers`, predictingLayers)]),
  ];
}

/** One token per byte in the spelling of GPT-2, one merge so that there is a list, and control tokens for the rest. */
export function byteVocabulary(size: number): GgufEntry[] {
  const visible = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let hidden = 0;
  const tokens = Array.from({ length: BYTES }, (_, byte) =>
    String.fromCharCode(visible(byte) ? byte : BYTES + hidden++),
  );
  const rest = Array.from({ length: size - BYTES - 1 }, (_, index) => `<|${index}|>`);
  return [
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", "default"),
    arr("tokenizer.ggml.tokens", "string", [...tokens, "th", ...rest]),
    arr("tokenizer.ggml.token_type", "int32", [...tokens.map(() => 1), 1, ...rest.map(() => 3)]),
    arr("tokenizer.ggml.merges", "string", ["t h"]),
    u32("tokenizer.ggml.bos_token_id", size - 1),
    u32("tokenizer.ggml.eos_token_id", size - 1),
  ];
}

class TensorMaker {
  readonly #spec: RandomModelSpec;
  readonly #dice: Dice;
  readonly #tensors: MadeTensor[] = [];
  #matrices = 0;

  constructor(spec: RandomModelSpec) {
    this.#spec = spec;
    this.#dice = new Dice(spec.seed);
  }

  all(): readonly MadeTensor[] {
    const { width, vocabulary, layers, predictingLayers = 0, tied = false } = this.#spec;
    this.#matrix("token_embd", width, vocabulary, LOGIT_SIZE);
    for (let layer = 0; layer < layers + predictingLayers; layer++) this.#layer(layer);
    this.#norm("output_norm", width);
    if (!tied) this.#total("output", width, vocabulary, LOGIT_SIZE);
    else if (this.#spec.biases?.includes("output") === true) this.#vector("output.bias", vocabulary, BIAS_SIZE);
    if (this.#spec.ropeFactors === true) this.#ropeFactors();
    return this.#tensors;
  }

  #layer(layer: number): void {
    const { architecture, width, heads, kvHeads, feedForward, layers, headWidth = width / heads } = this.#spec;
    const block = `blk.${layer}`;
    const total = (part: string, inputs: number, outputs: number, size = 1): void =>
      this.#total(`${block}.${part}`, inputs, outputs, size);
    this.#norm(`${block}.attn_norm`, width);
    if (this.#spec.fusedQkv === true) {
      total("attn_qkv", width, (heads + 2 * kvHeads) * headWidth, SHARP_SIZE);
    } else {
      total("attn_q", width, heads * headWidth, SHARP_SIZE);
      total("attn_k", width, kvHeads * headWidth, SHARP_SIZE);
      total("attn_v", width, kvHeads * headWidth);
    }
    total("attn_output", heads * headWidth, width);
    this.#norm(`${block}.ffn_norm`, width);
    if (architecture === "qwen3" || architecture === "gemma3") {
      this.#norm(`${block}.attn_q_norm`, headWidth, SHARP_SIZE);
      this.#norm(`${block}.attn_k_norm`, headWidth, SHARP_SIZE);
    }
    if (architecture === "glm4" || architecture === "gemma2" || architecture === "gemma3") {
      this.#norm(`${block}.post_attention_norm`, width);
      this.#norm(`${block}.post_ffw_norm`, width);
    }
    if (architecture === "glm4") {
      total("ffn_up", width, 2 * feedForward, SHARP_SIZE);
    } else {
      total("ffn_gate", width, feedForward, SHARP_SIZE);
      total("ffn_up", width, feedForward, SHARP_SIZE);
    }
    total("ffn_down", feedForward, width);
    if (layer >= layers) this.#predictor(block);
  }

  #predictor(block: string): void {
    const { width } = this.#spec;
    this.#total(`${block}.nextn.eh_proj`, 2 * width, width, 1);
    this.#norm(`${block}.nextn.enorm`, width);
    this.#norm(`${block}.nextn.hnorm`, width);
  }

  /** A matrix whose total with rows of size 1 has about the size given, and what else its total has. */
  #total(name: string, inputs: number, outputs: number, size: number): void {
    const part = name.slice(name.lastIndexOf(".") + 1);
    const scale = this.#spec.scales?.includes(part) === true ? this.#dice.between(0.25, 0.5) : undefined;
    this.#matrix(name, inputs, outputs, size / (scale ?? 1));
    if (scale !== undefined) this.#put(`${name}.scale`, [scale]);
    if (this.#spec.biases?.includes(part) === true) this.#vector(`${name}.bias`, outputs, BIAS_SIZE);
  }

  #matrix(name: string, inputs: number, outputs: number, size: number): void {
    const { types } = this.#spec;
    const type = types[this.#matrices++ % types.length];
    const data = randomTensor(this.#dice, type, inputs * outputs, size / Math.sqrt(inputs));
    this.#tensors.push({ name: `${name}.weight`, type, shape: [inputs, outputs], data });
  }

  #vector(name: string, width: number, size: number): void {
    this.#put(
      name,
      Array.from({ length: width }, () => this.#dice.bell() * size),
    );
  }

  #norm(name: string, width: number, size = 1): void {
    this.#put(
      `${name}.weight`,
      Array.from({ length: width }, () => size * this.#dice.between(0.6, 1.4)),
    );
  }

  /** Grows along the pairs, as Llama 3's does: fast pairs as trained, slow ones stretched. */
  #ropeFactors(): void {
    const { width, heads, headWidth = width / heads } = this.#spec;
    const pairs = headWidth / 2;
    const factors = Array.from({ length: pairs }, (_, pair) => 1 + (7 * pair * this.#dice.between(0.8, 1)) / pairs);
    this.#put("rope_freqs.weight", factors);
  }

  #put(name: string, values: readonly number[]): void {
    this.#tensors.push({
      name,
      type: "F32",
      shape: [values.length],
      data: encodeTensor("F32", Float32Array.from(values)),
    });
  }
}
