// Random shapes of every family: odd numbers of heads, partial rotation, windows, groups of experts, scaled ropes, and the optional
// tensors and ignored keys that files in the wild have. The same seed gives the same shape on every machine.

import { arr, bool, f32, u32 } from "../../../src/gguf/entry.js";
import { Dice } from "../../support/dice.js";
import {
  BIASES,
  dividedHeads,
  type Draw,
  sections,
  SELECTION_BIAS,
  sharedWidth,
  type UsualShape,
} from "./family-draw.js";
import { chance, experts, multipliers, partOfHead, routerKeys, scaling, some, windows } from "./family-keys.js";
import type { FamilyShape } from "./family-model.js";
import { HYBRID_DRAWS } from "./hybrid-shapes.js";
import { seedOf } from "./random-cases.js";

/** A random shape of a family. */
export interface FamilyCase {
  readonly name: string;
  readonly seed: number;
  readonly shape: FamilyShape;
}

const HEADS = [
  [4, 2],
  [3, 1],
  [6, 2],
  [5, 5],
  [7, 1],
  [8, 4],
  [9, 3],
] as const;
const PROJECTIONS = [[], BIASES, ["attn_qkv.weight"], ["attn_qkv.weight", "attn_qkv.bias"]];
const FUSED = [["attn_qkv.weight"], ["attn_qkv.weight", "attn_qkv.bias"]];
const EXPERT_BIASES = ["ffn_gate_inp.bias", "ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"];
const OUTPUT_BIAS = ["attn_output.bias"];

/** Latent attention, absorbed or in the expanded form of old files. */
function latent(dice: Dice, { heads, layers }: UsualShape): ReturnType<Draw> {
  const [latentWidth, rotaryWidth, unrotated, valueWidth] = [
    dice.pick([40, 64, 512]),
    dice.pick([8, 16, 64]),
    dice.pick([16, 24, 128]),
    dice.pick([20, 32, 128]),
  ];
  const isOld = chance(dice, 25);
  const widths = isOld
    ? { kvHeads: heads, headWidth: unrotated + rotaryWidth, valueWidth }
    : { kvHeads: 1, headWidth: latentWidth + rotaryWidth, valueWidth: latentWidth };
  return {
    ...widths,
    rotaryWidth,
    projections: [[]],
    predictingLayers: dice.below(2),
    own: [
      ...experts(dice),
      ...routerKeys(dice),
      u32("attention.kv_lora_rank", latentWidth),
      u32("attention.q_lora_rank", dice.pick([0, 24, 48])),
      u32("leading_dense_block_count", dice.below(layers)),
      u32("expert_shared_count", 1 + dice.below(2)),
      ...some(dice, 80, [u32("expert_gating_func", 1 + dice.below(4))]),
      ...(isOld
        ? []
        : [u32("attention.key_length_mla", unrotated + rotaryWidth), u32("attention.value_length_mla", valueWidth)]),
      ...some(dice, 40, [f32("attention.temperature_scale", 0.3), u32("attention.temperature_length", 16)]),
    ],
    layerOwn: [...(isOld ? [] : ["attn_k_b.weight"]), ...some(dice, 60, SELECTION_BIAS)],
  };
}

/** Window layers in a list; the last ones may use the keys and values of the two before them. */
function gemma4(dice: Dice, { kvHeads, headWidth, feedForward, heads }: UsualShape): ReturnType<Draw> {
  const layers = dice.pick([4, 5, 7]);
  const shared = dice.pick([0, 0, 1, 2]);
  const list = Array.from({ length: layers }, (_, layer) => layer % 3 !== 2);
  // The first of the shared layers is preceded by a window layer and a full one.
  const firstShared = layers - shared;
  if (shared > 0) [list[firstShared - 2], list[firstShared - 1]] = [true, false];
  const windowWidth = dice.pick([8, headWidth, 32]);
  const isMixture = chance(dice, 50);
  const fullKvHeads = shared > 0 ? kvHeads : 1;
  return {
    layers,
    projections: [[]],
    tensors: ["rope_freqs.weight"],
    own: [
      arr("attention.sliding_window_pattern", "bool", list),
      u32("attention.sliding_window", dice.pick([5, 16])),
      u32("attention.key_length_swa", windowWidth),
      u32("attention.value_length_swa", windowWidth),
      u32("rope.dimension_count_swa", windowWidth),
      ...some(dice, 50, [f32("rope.freq_base_swa", 5000)]),
      u32("attention.shared_kv_layers", shared),
      u32("embedding_length_per_layer_input", dice.pick([0, 12])),
      ...some(dice, 50, [f32("final_logit_softcapping", 20)]),
      arr(
        "attention.head_count_kv",
        "uint32",
        list.map((isWindow) => (isWindow ? kvHeads : heads % fullKvHeads === 0 ? fullKvHeads : kvHeads)),
      ),
      arr(
        "feed_forward_length",
        "uint32",
        list.map((_, layer) => feedForward + 8 * (layer % 3)),
      ),
      ...(isMixture ? experts(dice) : []),
    ],
    layerOwn: [
      ...some(dice, 60, ["attn_v.weight"]),
      ...some(dice, 60, ["layer_output_scale.weight"]),
      ...(isMixture ? ["ffn_gate_inp.weight", ...some(dice, 60, ["ffn_gate_up_exps.weight"])] : []),
      ...(isMixture ? some(dice, 60, ["ffn_down_exps.scale"]) : []),
    ],
  };
}

const plain: Draw = () => ({});
/** The same without keys for their width. */
const unstatedHeads = (dice: Dice, usual: UsualShape): Partial<FamilyShape> => ({
  ...dividedHeads(dice, usual),
  dropped: ["attention.key_length", "attention.value_length", "rope.dimension_count"],
});
const mixture: Draw = (dice) => ({ own: [...experts(dice), ...routerKeys(dice)] });

/** Every family by its name in `general.architecture`; some have a second kind of files. */
const DRAWS: Readonly<Record<string, Draw>> = {
  llama: (dice) => ({ layerOwn: some(dice, 40, OUTPUT_BIAS), tensors: some(dice, 40, ["rope_freqs.weight"]) }),
  "llama with experts": mixture,
  qwen2: unstatedHeads,
  qwen3: plain,
  qwen2moe: (dice, usual) => ({
    ...unstatedHeads(dice, usual),
    tied: false,
    own: [...experts(dice), ...routerKeys(dice), sharedWidth(dice)],
  }),
  qwen3moe: mixture,
  qwen3vl: (_, { headWidth }) => ({ own: [sections(headWidth)] }),
  qwen3vlmoe: (dice, { headWidth }) => ({ own: [sections(headWidth), ...experts(dice), ...routerKeys(dice)] }),
  "gpt-oss": (dice) => ({
    tied: false,
    own: [...experts(dice), ...routerKeys(dice), ...windows(dice)],
    layerOwn: [...OUTPUT_BIAS, ...EXPERT_BIASES],
    projections: PROJECTIONS.filter((names) => names.some((name) => name.endsWith(".bias"))),
  }),
  gemma2: (dice, usual) => ({
    tied: true,
    rotaryWidth: partOfHead(dice, usual),
    own: [...windows(dice), ...some(dice, 50, [f32("attn_logit_softcapping", 4), f32("final_logit_softcapping", 12)])],
  }),
  gemma3: (dice, usual) => ({
    rotaryWidth: partOfHead(dice, usual),
    layers: dice.pick([3, 7]),
    own: [...some(dice, 80, windows(dice)), ...some(dice, 30, [f32("final_logit_softcapping", 12)])],
  }),
  gemma4,
  deepseek2: latent,
  mistral4: latent,
  glm4: (dice, usual) => ({ rotaryWidth: partOfHead(dice, usual), predictingLayers: dice.below(2) }),
  glm4moe: (dice, usual) => ({
    rotaryWidth: partOfHead(dice, usual),
    predictingLayers: dice.below(2),
    own: [
      ...experts(dice),
      ...routerKeys(dice),
      u32("expert_shared_count", 1 + dice.below(2)),
      u32("leading_dense_block_count", dice.below(usual.layers)),
      ...some(dice, 60, [u32("expert_gating_func", 1 + dice.below(4))]),
    ],
    layerOwn: [...SELECTION_BIAS, ...some(dice, 50, ["attn_q_norm.weight", "attn_k_norm.weight"])],
    projections: [BIASES],
  }),
  mistral3: (dice) => ({
    layerOwn: some(dice, 40, OUTPUT_BIAS),
    own: some(dice, 60, [f32("attention.temperature_scale", 0.3)]),
  }),
  "mistral3 with experts": (dice) => ({
    own: [...experts(dice), ...routerKeys(dice), ...some(dice, 60, [f32("attention.temperature_scale", 0.3)])],
  }),
  phi3: (dice, usual) => ({
    ...dividedHeads(dice, usual),
    rotaryWidth: partOfHead(dice, usual),
    projections: FUSED,
    scaled: false,
    tensors: some(dice, 60, ["rope_factors_long.weight", "rope_factors_short.weight"]),
    own: [
      // On one side or the other of the context of the test.
      u32("rope.scaling.original_context_length", dice.pick([32, 256])),
      ...some(dice, 50, [f32("rope.scaling.attn_factor", 1.2)]),
      ...some(dice, 50, [u32("attention.sliding_window", 7)]),
    ],
  }),
  granite: (dice) => ({
    own: [...multipliers(dice), ...some(dice, 50, [bool("rope.scaling.finetuned", chance(dice, 50))])],
    layerOwn: some(dice, 40, OUTPUT_BIAS),
  }),
  granitemoe: (dice) => ({
    own: [...multipliers(dice), ...experts(dice), ...routerKeys(dice), ...some(dice, 60, [sharedWidth(dice)])],
  }),
  "minimax-m2": (dice, usual) => ({
    tied: false,
    rotaryWidth: partOfHead(dice, usual),
    own: [...experts(dice), ...routerKeys(dice), u32("expert_gating_func", 1 + dice.below(4))],
    layerOwn: SELECTION_BIAS,
  }),
  olmo2: (dice, usual) => ({ ...dividedHeads(dice, usual), tied: false, own: some(dice, 70, windows(dice)) }),
  exaone4: (dice, usual) => ({
    ...dividedHeads(dice, usual),
    own: some(dice, 50, windows(dice)),
    predictingLayers: dice.below(2),
  }),
  "exaone4 with windows": (dice, { heads }) => ({
    layers: 64,
    width: heads * 8,
    headWidth: 8,
    feedForward: 32,
    own: windows(dice),
  }),
  cohere2: (dice, usual) => ({
    ...dividedHeads(dice, usual),
    tied: true,
    layers: dice.pick([3, 5]),
    rotaryWidth: partOfHead(dice, usual),
    own: [...windows(dice), f32("logit_scale", 0.3), f32("attention.layer_norm_epsilon", 1e-4)],
  }),
  smollm3: (dice) => ({ layers: dice.pick([4, 5]) }),
  seed_oss: plain,
  ernie4_5: plain,
  "ernie4_5-moe": (dice) => ({
    own: [
      ...experts(dice),
      ...routerKeys(dice),
      ...some(dice, 70, [u32("expert_shared_count", 1), sharedWidth(dice)]),
      u32("leading_dense_block_count", dice.below(2)),
      u32("interleave_moe_layer_step", 1),
    ],
    layerOwn: some(dice, 60, SELECTION_BIAS),
  }),
  "hunyuan-dense": plain,
  "hunyuan-moe": (dice) => ({ own: [...experts(dice), ...routerKeys(dice), sharedWidth(dice)] }),
  llama4: (dice) => ({
    layers: dice.pick([4, 5]),
    tensors: some(dice, 50, ["rope_freqs.weight"]),
    own: [
      ...experts(dice),
      ...routerKeys(dice),
      u32("interleave_moe_layer_step", 1 + dice.below(3)),
      ...some(dice, 30, [f32("rope.freq_base_swa", 700)]),
    ],
  }),
  ...HYBRID_DRAWS,
};

/** Names of all kinds of files. */
export const FAMILY_NAMES: readonly string[] = Object.keys(DRAWS);

/** A random shape of a kind of files; its seed follows from the name and the number. */
export function familyCase(family: string, number: number): FamilyCase {
  const name = `${family}, shape ${number}`;
  const seed = seedOf(name);
  const dice = new Dice(seed);
  const [heads, kvHeads] = dice.pick(HEADS);
  const usual = {
    layers: 2 + dice.below(3),
    width: dice.pick([48, 64, 80, 96]),
    heads,
    kvHeads,
    headWidth: dice.pick([8, 16, 20, 32, 48]),
    feedForward: dice.pick([40, 64, 96, 136]),
    normEpsilon: dice.pick([1e-6, 1e-5, 3e-4]),
    ropeBase: dice.pick([3000, 10_000, 500_000]),
    vocabularySize: 280 + dice.below(40),
    tied: chance(dice, 50),
  };
  const { own = [], layerOwn = [], projections = PROJECTIONS, scaled = true, ...changed } = DRAWS[family](dice, usual);
  const keys = [...own, ...(scaled ? scaling(dice) : [])];
  const layerTensors = [...layerOwn, ...dice.pick(projections)];
  return {
    name,
    seed,
    shape: {
      architecture: family.split(" ")[0],
      ...usual,
      ...changed,
      keys: () => keys,
      layerTensors: () => layerTensors,
    },
  };
}
