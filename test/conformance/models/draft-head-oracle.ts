// A draft head in float64, written from its description: the token's embedding and the hidden state before it, each
// normalized, are projected to one row, which passes through one layer; its result, normalized, gives the logits and is the
// hidden state of the next draft. Straightforward loops over one row at a time.

import { decodeTensor } from "../../../src/quant/codec.js";
import type { MadeTensor } from "./random-model.js";

type Row = Float64Array;

/** What of a head the tensors do not say. */
export interface OracleHead {
  readonly block: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly keyWidth: number;
  /** 0: no rotation. Pairs (i, i + half), or (2i, 2i + 1) for latent attention. */
  readonly rotaryWidth: number;
  readonly ropeBase: number;
  readonly epsilon: number;
  readonly outputGate?: boolean;
  /** Latent attention: the width of the latent vector, and of a head's value. */
  readonly latent?: { readonly width: number; readonly valueWidth: number };
  /** The name of the norm before the feed-forward network. */
  readonly secondNorm: string;
  readonly lastNorm: "rms" | "layer";
  readonly lastEpsilon?: number;
  readonly network:
    | { readonly kind: "swiglu" }
    | {
        readonly kind: "experts";
        readonly used: number;
        readonly gating: "softmax" | "sigmoid";
        readonly renormalize: boolean;
        readonly scale: number;
        readonly activation: "swiglu" | "relu2";
      };
}

interface Stored {
  readonly position: number;
  /** By KV head; of latent attention one row. */
  readonly keys: readonly Row[];
  readonly values: readonly Row[];
}

/** The result of one draft. */
export interface OracleDraft {
  readonly logits: Row;
  /** The hidden state of the next draft. */
  readonly hidden: Row;
}

/** Drafts over one sequence; remembers keys and values of the rows that it was given. */
export class DraftHeadOracle {
  readonly #head: OracleHead;
  readonly #tensors = new Map<string, MadeTensor>();
  readonly #floats = new Map<string, Float32Array>();
  #stored: readonly Stored[] = [];

  constructor(tensors: readonly MadeTensor[], head: OracleHead) {
    for (const tensor of tensors) this.#tensors.set(tensor.name, tensor);
    this.#head = head;
  }

  /** Drafts the token after `token`, which is at `position`, from the hidden state of the position before. */
  draft(token: number, hidden: ArrayLike<number>, position: number): OracleDraft {
    const { block, epsilon, secondNorm, lastNorm, lastEpsilon = epsilon } = this.#head;
    const own = `blk.${block}.nextn`;
    const table = this.#has(`${own}.embed_tokens.weight`) ? `${own}.embed_tokens.weight` : "token_embd.weight";
    const embedded = rms(this.#row(table, token), this.#vector(`${own}.enorm.weight`), epsilon);
    const before = rms(Float64Array.from(hidden), this.#vector(`${own}.hnorm.weight`), epsilon);
    const joined = this.#times(`${own}.eh_proj.weight`, Float64Array.of(...embedded, ...before));
    const normed = rms(joined, this.#vector(`blk.${block}.attn_norm.weight`), epsilon);
    const middle = sum(joined, this.#times(`blk.${block}.attn_output.weight`, this.#attend(normed, position)));
    const fed = this.#network(rms(middle, this.#vector(`blk.${block}.${secondNorm}.weight`), epsilon));
    const result = sum(middle, fed);
    const norm = this.#has(`${own}.shared_head_norm.weight`) ? `${own}.shared_head_norm.weight` : "output_norm.weight";
    const last = (lastNorm === "rms" ? rms : layerNorm)(result, this.#vector(norm), lastEpsilon);
    const matrix = [`${own}.shared_head_head.weight`, "output.weight", "token_embd.weight"].find((name) =>
      this.#has(name),
    );
    return { logits: this.#times(matrix ?? "", last), hidden: last };
  }

  #attend(input: Row, position: number): Row {
    return this.#head.latent === undefined ? this.#attendHeads(input, position) : this.#attendLatent(input, position);
  }

  #attendHeads(input: Row, position: number): Row {
    const { block, heads, kvHeads, keyWidth, outputGate = false } = this.#head;
    const stride = outputGate ? 2 * keyWidth : keyWidth;
    const projected = this.#times(`blk.${block}.attn_q.weight`, input);
    const key = this.#times(`blk.${block}.attn_k.weight`, input);
    const value = this.#times(`blk.${block}.attn_v.weight`, input);
    const slice = (row: Row, head: number, width: number, offset = 0): Row =>
      row.slice(head * width + offset, head * width + offset + keyWidth);
    const keys = range(kvHeads).map((head) => this.#rotated(this.#headNorm(slice(key, head, keyWidth), "k"), position));
    this.#store({ position, keys, values: range(kvHeads).map((head) => slice(value, head, keyWidth)) });
    const results = range(heads).map((head) => {
      const query = this.#rotated(this.#headNorm(slice(projected, head, stride), "q"), position);
      const kvHead = Math.floor(head / (heads / kvHeads));
      const attended = this.#mix(query, 1 / Math.sqrt(keyWidth), (row) => [row.keys[kvHead], row.values[kvHead]]);
      if (!outputGate) return attended;
      const gate = slice(projected, head, stride, keyWidth);
      return attended.map((element, column) => element * sigmoid(gate[column]));
    });
    return Float64Array.of(...results.flatMap((row) => [...row]));
  }

  /** In the expanded form: keys and values of each head are made from every latent vector. */
  #attendLatent(input: Row, position: number): Row {
    const { block, heads, keyWidth, rotaryWidth, epsilon, latent } = this.#head;
    if (latent === undefined) throw new Error("no latent attention");
    const name = (part: string): string => `blk.${block}.${part}.weight`;
    const unrotated = keyWidth - rotaryWidth;
    const compressed = this.#times(name("attn_kv_a_mqa"), input);
    const stored = rms(compressed.slice(0, latent.width), this.#vector(name("attn_kv_a_norm")), epsilon);
    const shared = this.#rotatedPairs(compressed.slice(latent.width), position);
    this.#store({ position, keys: [stored, shared], values: [] });
    const query = this.#has(name("attn_q_a"))
      ? this.#times(
          name("attn_q_b"),
          rms(this.#times(name("attn_q_a"), input), this.#vector(name("attn_q_a_norm")), epsilon),
        )
      : this.#times(name("attn_q"), input);
    const results = range(heads).map((head) => {
      const own = query.slice(head * keyWidth, (head + 1) * keyWidth);
      const rotated = this.#rotatedPairs(own.slice(unrotated), position);
      const whole = Float64Array.of(...own.slice(0, unrotated), ...rotated);
      return this.#mix(whole, 1 / Math.sqrt(keyWidth), ({ keys: [vector, turned] }) => [
        // attn_k_b maps a query to the latent space, so its transpose maps a latent vector to a key.
        Float64Array.of(...this.#transposed(name("attn_k_b"), head, vector), ...turned),
        this.#matrixOf(name("attn_v_b"), head, vector),
      ]);
    });
    return Float64Array.of(...results.flatMap((row) => [...row]));
  }

  /** Replaces a row of the same position and those after it. */
  #store(row: Stored): void {
    this.#stored = [...this.#stored.filter(({ position }) => position < row.position), row];
  }

  #mix(query: Row, scale: number, partsOf: (row: Stored) => readonly [key: Row, value: Row]): Row {
    const parts = this.#stored.map(partsOf);
    const scores = parts.map(([key]) => dot(query, key) * scale);
    const weights = softmax(scores);
    return parts[0][1].map((_, column) =>
      parts.reduce((total, [, value], index) => total + weights[index] * value[column], 0),
    );
  }

  #headNorm(row: Row, which: "q" | "k"): Row {
    const name = `blk.${this.#head.block}.attn_${which}_norm.weight`;
    return this.#has(name) ? rms(row, this.#vector(name), this.#head.epsilon) : row;
  }

  /** Pairs (i, i + half). */
  #rotated(row: Row, position: number): Row {
    const half = this.#head.rotaryWidth / 2;
    return this.#turned(row, position, (pair) => [pair, pair + half]);
  }

  /** Pairs (2i, 2i + 1). */
  #rotatedPairs(row: Row, position: number): Row {
    return this.#turned(row, position, (pair) => [2 * pair, 2 * pair + 1]);
  }

  #turned(row: Row, position: number, columns: (pair: number) => readonly [number, number]): Row {
    const { rotaryWidth, ropeBase } = this.#head;
    const out = row.slice();
    for (let pair = 0; pair < rotaryWidth / 2; pair++) {
      const angle = position * ropeBase ** ((-2 * pair) / rotaryWidth);
      const [left, right] = columns(pair);
      out[left] = row[left] * Math.cos(angle) - row[right] * Math.sin(angle);
      out[right] = row[left] * Math.sin(angle) + row[right] * Math.cos(angle);
    }
    return out;
  }

  #network(input: Row): Row {
    const { block, network } = this.#head;
    const name = (part: string): string => `blk.${block}.${part}.weight`;
    if (network.kind === "swiglu") {
      const up = this.#times(name("ffn_up"), input);
      const gate = this.#times(name("ffn_gate"), input);
      return this.#times(
        name("ffn_down"),
        up.map((element, column) => element * silu(gate[column])),
      );
    }
    const logits = this.#times(name("ffn_gate_inp"), input);
    const scores = network.gating === "softmax" ? softmax(logits) : [...logits].map(sigmoid);
    const biasName = `blk.${block}.exp_probs_b.bias`;
    const bias = this.#has(biasName) ? this.#vector(biasName) : new Float32Array(scores.length);
    const chosen = range(scores.length)
      .toSorted((left, right) => scores[right] + bias[right] - scores[left] - bias[left])
      .slice(0, network.used);
    const total = network.renormalize ? chosen.reduce((all, expert) => all + scores[expert], 0) : 1;
    let result: Row = new Float64Array(input.length);
    for (const expert of chosen) {
      const up = this.#matrixOf(name("ffn_up_exps"), expert, input);
      const gate = network.activation === "relu2" ? up : this.#matrixOf(name("ffn_gate_exps"), expert, input);
      const down = this.#matrixOf(name("ffn_down_exps"), expert, activated(network.activation, gate, up));
      result = sum(
        result,
        down.map((element) => (element * scores[expert] * network.scale) / total),
      );
    }
    return this.#has(name("ffn_up_shexp")) ? sum(result, this.#sharedExpert(input, network.activation)) : result;
  }

  #sharedExpert(input: Row, activation: "swiglu" | "relu2"): Row {
    const name = (part: string): string => `blk.${this.#head.block}.${part}.weight`;
    const up = this.#times(name("ffn_up_shexp"), input);
    const gate = activation === "relu2" ? up : this.#times(name("ffn_gate_shexp"), input);
    const down = this.#times(name("ffn_down_shexp"), activated(activation, gate, up));
    const gateName = name("ffn_gate_inp_shexp");
    if (!this.#has(gateName)) return down;
    const factor = sigmoid(dot(Float64Array.from(this.#vector(gateName)), input));
    return down.map((element) => element * factor);
  }

  #has(name: string): boolean {
    return this.#tensors.has(name);
  }

  #vector(name: string): Float32Array {
    const known = this.#floats.get(name);
    if (known !== undefined) return known;
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) throw new Error(`no tensor ${name}`);
    const floats = decodeTensor(
      "F32",
      tensor.data,
      tensor.shape.reduce((total, length) => total * length, 1),
    );
    this.#floats.set(name, floats);
    return floats;
  }

  #row(name: string, row: number): Row {
    const [width] = this.#tensors.get(name)?.shape ?? [0];
    return Float64Array.from(this.#vector(name).subarray(row * width, (row + 1) * width));
  }

  #times(name: string, input: Row): Row {
    return this.#matrixOf(name, 0, input);
  }

  /** A matrix of a stack of matrices, times a row. */
  #matrixOf(name: string, index: number, input: Row): Row {
    const data = this.#vector(name);
    const [inputs, outputs = 1] = this.#tensors.get(name)?.shape ?? [0];
    const start = index * inputs * outputs;
    return Float64Array.from({ length: outputs }, (_, output) => {
      let total = 0;
      for (let k = 0; k < inputs; k++) total += data[start + output * inputs + k] * input[k];
      return total;
    });
  }

  #transposed(name: string, index: number, input: Row): Row {
    const data = this.#vector(name);
    const [inputs, outputs = 1] = this.#tensors.get(name)?.shape ?? [0];
    const start = index * inputs * outputs;
    return Float64Array.from({ length: inputs }, (_, column) => {
      let total = 0;
      for (let k = 0; k < outputs; k++) total += data[start + k * inputs + column] * input[k];
      return total;
    });
  }
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const silu = (x: number): number => x * sigmoid(x);
const dot = (left: Row, right: Row): number => left.reduce((total, element, k) => total + element * right[k], 0);
const sum = (left: Row, right: Row): Row => left.map((element, k) => element + right[k]);

function activated(activation: "swiglu" | "relu2", gate: Row, up: Row): Row {
  return up.map((element, k) => (activation === "relu2" ? Math.max(element, 0) ** 2 : element * silu(gate[k])));
}

function rms(row: Row, weight: ArrayLike<number>, epsilon: number): Row {
  const size = Math.sqrt(row.reduce((total, element) => total + element * element, 0) / row.length + epsilon);
  return row.map((element, k) => (element / size) * weight[k]);
}

function layerNorm(row: Row, weight: ArrayLike<number>, epsilon: number): Row {
  const mean = row.reduce((total, element) => total + element, 0) / row.length;
  const variance = row.reduce((total, element) => total + (element - mean) ** 2, 0) / row.length;
  return row.map((element, k) => ((element - mean) / Math.sqrt(variance + epsilon)) * weight[k]);
}

function softmax(scores: ArrayLike<number>): number[] {
  const all = Array.from(scores);
  const highest = Math.max(...all);
  const weights = all.map((score) => Math.exp(score - highest));
  const total = weights.reduce((left, right) => left + right, 0);
  return weights.map((weight) => weight / total);
}
