// Tensor names. GGUF converters write `blk.N.…`; a few files keep the names of their checkpoint. Each scheme maps the
// usual GGUF name to the file's own, so that descriptors use one spelling only. Only names differ: values are stored as
// in other GGUF files of the family.

import type { TensorIndex } from "./descriptor.js";

type NameTable = Readonly<Record<string, readonly string[]>>;

interface NamingScheme {
  /** Prefix of layer tensors, before the layer's number. */
  readonly layerPrefix: string;
  /** Possible names of a tensor in such a file, likeliest first. */
  readonly spellings: (name: string) => readonly string[];
}

const usual: NamingScheme = { layerPrefix: "blk.", spellings: (name) => [name] };

/** Names in Hugging Face checkpoints of the LLaMA, Qwen and GLM families. */
const HUGGING_FACE_NAMES: NameTable = {
  token_embd: ["model.embed_tokens"],
  output_norm: ["model.norm"],
  output: ["lm_head"],
  attn_norm: ["input_layernorm"],
  attn_q: ["self_attn.q_proj"],
  attn_k: ["self_attn.k_proj"],
  attn_v: ["self_attn.v_proj"],
  attn_output: ["self_attn.o_proj"],
  attn_q_norm: ["self_attn.q_norm"],
  attn_k_norm: ["self_attn.k_norm"],
  post_attention_norm: ["post_self_attn_layernorm"],
  ffn_norm: ["post_attention_layernorm"],
  ffn_gate: ["mlp.gate_proj"],
  ffn_up: ["mlp.up_proj", "mlp.gate_up_proj"],
  ffn_down: ["mlp.down_proj"],
  post_ffw_norm: ["post_mlp_layernorm"],
};

/** Names in checkpoints in Meta's spelling. */
const META_NAMES: NameTable = {
  token_embd: ["transformer.tok_embeddings", "tok_embeddings"],
  output_norm: ["transformer.norm", "norm"],
  output: ["transformer.output"],
  attn_norm: ["attention_norm"],
  attn_q: ["attention.wq"],
  attn_k: ["attention.wk"],
  attn_v: ["attention.wv"],
  attn_output: ["attention.wo"],
  ffn_gate: ["feed_forward.w1"],
  ffn_up: ["feed_forward.w3"],
  ffn_down: ["feed_forward.w2"],
};

/** Each foreign prefix usually comes with one project's names, but the other's and GGUF's own occur too. */
const NAMING_SCHEMES: readonly NamingScheme[] = [
  usual,
  tableScheme("model.layers.", [HUGGING_FACE_NAMES, META_NAMES]),
  tableScheme("transformer.layers.", [META_NAMES, HUGGING_FACE_NAMES]),
];

/** Maps usual tensor names to the names in this file, which is recognised by its layer tensors. */
export function detectNaming(tensors: TensorIndex): (name: string) => string {
  const { spellings } = detectScheme(tensors.keys());
  const fileName = (name: string): string => {
    const candidates = spellings(name);
    return candidates.find((candidate) => tensors.has(candidate)) ?? candidates[0];
  };
  const output = fileName("output.weight");
  // Models with tied embeddings have no separate output matrix: the embedding table is used under both names.
  const head = tensors.has(output) ? output : fileName("token_embd.weight");
  return (name) => (name === "output.weight" ? head : fileName(name));
}

function detectScheme(names: Iterable<string>): NamingScheme {
  for (const name of names) {
    const scheme = NAMING_SCHEMES.find(
      ({ layerPrefix }) => name.startsWith(layerPrefix) && /^\d+\./.test(name.slice(layerPrefix.length)),
    );
    if (scheme !== undefined) return scheme;
  }
  return usual;
}

function tableScheme(layerPrefix: string, tables: readonly NameTable[]): NamingScheme {
  const spellings = (name: string): readonly string[] => {
    const match = /^(?:blk\.(\d+)\.)?([^.]+)\.(\w+)$/.exec(name);
    if (match === null) return [name];
    const [, layer, part, kind] = match;
    const prefix = layer === undefined ? "" : `${layerPrefix}${layer}.`;
    const parts = [...tables.flatMap((table) => table[part] ?? []), part];
    return parts.map((spelling) => `${prefix}${spelling}.${kind}`);
  };
  return { layerPrefix, spellings };
}
