// Random models of Gemma 2 and 3 that are compared with llama.cpp: windows shorter and longer than a KV block, heads of
// 256 columns, both rope bases, soft-caps, the scale of the 27B models, and the keys that files may lack.

import { f32, str, u32, type GgufEntry } from "../../../src/gguf/entry.js";
import { floatToHalf, HALF_VALUES } from "../../../src/quant/half.js";
import { type RandomCase, seedOf } from "./random-cases.js";
import type { RandomModelSpec } from "./random-model.js";

type Gemma = "gemma2" | "gemma3";

/** Longer than every window below and than a KV block of 32 positions. */
export const GEMMA_TOKENS = 90;

const SMALL = {
  types: ["F32"],
  width: 128,
  heads: 4,
  kvHeads: 2,
  headWidth: 64,
  feedForward: 192,
  layers: 7,
  vocabulary: 300,
  context: 512,
  epsilon: 1e-5,
  tied: true,
} as const;

const USUAL: { readonly [Family in Gemma]: readonly GgufEntry[] } = {
  gemma2: [
    u32("gemma2.attention.sliding_window", 24),
    f32("gemma2.attn_logit_softcapping", 20),
    f32("gemma2.final_logit_softcapping", 25),
  ],
  gemma3: [
    u32("gemma3.attention.sliding_window", 24),
    f32("gemma3.rope.freq_base", 100_000),
    f32("gemma3.rope.freq_base_swa", 3_000),
  ],
};

/** `changed` replaces the usual entries of the same keys. */
function variant(
  architecture: Gemma,
  name: string,
  changes: Partial<RandomModelSpec> = {},
  changed: readonly GgufEntry[] = [],
  dropped: readonly string[] = [],
): RandomCase {
  const fullName = `${architecture}, ${name}`;
  const gone = new Set([...dropped, ...changed.map(({ key }) => key)]);
  const metadata = [...USUAL[architecture].filter(({ key }) => !gone.has(key)), ...changed];
  return { name: fullName, spec: { seed: seedOf(fullName), architecture, ...SMALL, metadata, ...changes } };
}

const FAMILIES: readonly Gemma[] = ["gemma2", "gemma3"];
const WIDE = { headWidth: 256, heads: 2, kvHeads: 1 } as const;

export const GEMMA_CASES: readonly RandomCase[] = [
  ...FAMILIES.flatMap((family) => [
    variant(family, "as usual"),
    variant(family, "heads of 256 and a window longer than a KV block", WIDE, [
      u32(`${family}.attention.sliding_window`, 50),
    ]),
    variant(family, "heads of 256 for each query head", { ...WIDE, kvHeads: 2 }),
    variant(family, "a window longer than the text", {}, [u32(`${family}.attention.sliding_window`, 1000)]),
    variant(family, "a window of one position", {}, [u32(`${family}.attention.sliding_window`, 1)]),
    variant(family, "no window in the file", {}, [], [`${family}.attention.sliding_window`]),
    variant(family, "another period", {}, [u32(`${family}.attention.sliding_window_pattern`, 3)]),
    variant(family, "a final soft-cap", {}, [f32(`${family}.final_logit_softcapping`, 7)]),
    variant(family, "an attention soft-cap", {}, [f32(`${family}.attn_logit_softcapping`, 5)]),
    variant(
      family,
      "no soft-caps in the file",
      {},
      [],
      [`${family}.attn_logit_softcapping`, `${family}.final_logit_softcapping`],
    ),
    variant(family, "linear scaling", {}, [
      str(`${family}.rope.scaling.type`, "linear"),
      f32(`${family}.rope.scaling.factor`, 8),
    ]),
    variant(family, "YaRN with an attention factor", {}, [
      str(`${family}.rope.scaling.type`, "yarn"),
      f32(`${family}.rope.scaling.factor`, 4),
      u32(`${family}.rope.scaling.original_context_length`, 64),
      f32(`${family}.rope.scaling.attn_factor`, 0.8),
    ]),
    variant(family, "linear scaling with an attention factor", {}, [
      str(`${family}.rope.scaling.type`, "linear"),
      f32(`${family}.rope.scaling.factor`, 3),
      f32(`${family}.rope.scaling.attn_factor`, 1.3),
    ]),
    variant(family, "a rope base for windows in the file", {}, [f32(`${family}.rope.freq_base_swa`, 700)]),
    variant(family, "no rope base for windows in the file", {}, [], [`${family}.rope.freq_base_swa`]),
    variant(family, "quantized weights", { ...WIDE, width: 256, feedForward: 512, types: ["Q4_K", "Q6_K", "Q8_0"] }),
  ]),
  variant("gemma2", "as many layers as 27B has", { layers: 46, width: 96, headWidth: 16, feedForward: 32 }),
  variant("gemma3", "as many layers as 27B has", { layers: 62, width: 96, headWidth: 16, feedForward: 32 }),
];

/** llama.cpp's GELU on a CPU: looked up in a table of 16-bit floats, so that argument and result are rounded. */
export function tableGelu(exact: (x: number) => number): (x: number) => number {
  const half = (x: number): number => HALF_VALUES[floatToHalf(x)];
  return (x) => half(exact(half(x)));
}
