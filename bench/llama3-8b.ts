// A GGUF with Llama-3-8B's shape: 291 tensors, 128,256 tokens, 280,147 merges. Weights are a hole in the file, so it
// takes the disk of its header only. Token and merge texts are made up, of about the real lengths.

import { arr, f32, type GgufEntry, i32, str, u32 } from "../src/gguf/entry.js";
import { type GgufWriterTensor, writeGguf } from "../src/gguf/writer.js";

const VOCABULARY = 128_256;
const MERGES = 280_147;
const LAYERS = 32;
const WIDTH = 4096;
const KV_WIDTH = 1024;
const FEED_FORWARD = 14_336;

export async function writeLlama3Shape(path: string): Promise<void> {
  await writeGguf(path, { metadata: metadata(), tensors: tensors() });
}

function metadata(): GgufEntry[] {
  return [
    str("general.architecture", "llama"),
    str("general.name", "Llama-3-8B shape"),
    u32("llama.block_count", LAYERS),
    u32("llama.context_length", 8192),
    u32("llama.embedding_length", WIDTH),
    u32("llama.feed_forward_length", FEED_FORWARD),
    u32("llama.attention.head_count", 32),
    u32("llama.attention.head_count_kv", 8),
    f32("llama.attention.layer_norm_rms_epsilon", 1e-5),
    f32("llama.rope.freq_base", 500_000),
    u32("llama.rope.dimension_count", 128),
    u32("llama.vocab_size", VOCABULARY),
    str("tokenizer.ggml.model", "gpt2"),
    str("tokenizer.ggml.pre", "llama-bpe"),
    arr("tokenizer.ggml.tokens", "string", Array.from({ length: VOCABULARY }, (_, id) => word(id))),
    arr("tokenizer.ggml.token_type", "int32", new Int32Array(VOCABULARY).fill(1)),
    arr("tokenizer.ggml.merges", "string", Array.from({ length: MERGES }, (_, rank) => `${word(rank)} ${word(rank * 7)}`)),
    i32("tokenizer.ggml.bos_token_id", 128_000),
    i32("tokenizer.ggml.eos_token_id", 128_001),
  ];
}

/** Distinct words of two to seven letters. */
function word(index: number): string {
  let text = "";
  for (let rest = index + 26; rest > 0; rest = Math.floor(rest / 26)) text += String.fromCharCode(97 + (rest % 26));
  return text + "ing".slice(0, index % 4);
}

/** Types as a Q4_K_M file has them: Q6_K for the output, half of the values and half of the down products. */
function tensors(): GgufWriterTensor[] {
  const matrix = (name: string, inputs: number, outputs: number, type: "Q4_K" | "Q6_K" = "Q4_K"): GgufWriterTensor => ({
    name: `${name}.weight`,
    type,
    shape: [inputs, outputs],
    data: "sparse",
  });
  const norm = (name: string): GgufWriterTensor => ({ name: `${name}.weight`, type: "F32", shape: [WIDTH], data: "sparse" });
  const layers = Array.from({ length: LAYERS }, (_, layer) => {
    const finer = layer % 2 === 0 ? "Q6_K" : "Q4_K";
    return [
      norm(`blk.${layer}.attn_norm`),
      matrix(`blk.${layer}.attn_q`, WIDTH, WIDTH),
      matrix(`blk.${layer}.attn_k`, WIDTH, KV_WIDTH),
      matrix(`blk.${layer}.attn_v`, WIDTH, KV_WIDTH, finer),
      matrix(`blk.${layer}.attn_output`, WIDTH, WIDTH),
      norm(`blk.${layer}.ffn_norm`),
      matrix(`blk.${layer}.ffn_gate`, WIDTH, FEED_FORWARD),
      matrix(`blk.${layer}.ffn_up`, WIDTH, FEED_FORWARD),
      matrix(`blk.${layer}.ffn_down`, FEED_FORWARD, WIDTH, finer),
    ];
  });
  return [matrix("token_embd", WIDTH, VOCABULARY), ...layers.flat(), norm("output_norm"), matrix("output", WIDTH, VOCABULARY, "Q6_K")];
}
