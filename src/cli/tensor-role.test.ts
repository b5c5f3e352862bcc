import { describe, expect, it } from "vitest";
import { roleOf } from "./tensor-role.js";

describe("roleOf", () => {
  it.each([
    ["token_embd.weight", "embedding"],
    ["model.embed_tokens.weight", "embedding"],
    ["transformer.tok_embeddings.weight", "embedding"],
    ["output.weight", "output"],
    ["lm_head.weight", "output"],
    ["output_norm.weight", "norms"],
    ["blk.3.attn_norm.weight", "norms"],
    ["blk.3.attn_q_norm.weight", "norms"],
    ["model.layers.0.input_layernorm.weight", "norms"],
    ["blk.3.attn_output.weight", "attention"],
    ["blk.3.attn_q.bias", "attention"],
    ["transformer.layers.1.attention.wq.weight", "attention"],
    ["blk.3.ffn_down.weight", "feed-forward"],
    ["model.layers.0.mlp.up_proj.weight", "feed-forward"],
    ["blk.3.ffn_down_exps.weight", "experts"],
    ["blk.3.ffn_gate_inp.weight", "experts"],
    ["rope_freqs.weight", "other"],
    ["something.else", "other"],
  ])("%s is %s", (name, role) => {
    expect(roleOf(name)).toBe(role);
  });
});
