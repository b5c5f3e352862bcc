// Random keys and tensors of families with recurrent layers.

import { arr, bool, f32, type GgufEntry, u32 } from "../../../src/gguf/entry.js";
import type { Dice } from "../../support/dice.js";
import {
  BIASES,
  dividedHeads,
  type Draw,
  sections,
  SELECTION_BIAS,
  sharedWidth,
  type UsualShape,
} from "./family-draw.js";
import { chance, experts, multipliers, partOfHead, routerKeys, some } from "./family-keys.js";
import type { FamilyShape } from "./family-model.js";

const CONV_BIAS = "ssm_conv1d.bias";

interface HybridParts extends Partial<FamilyShape> {
  readonly own: readonly GgufEntry[];
  readonly layerOwn?: readonly string[];
}

/** Gated delta nets, the last layer of every few with attention. */
function deltaNetParts(dice: Dice): HybridParts {
  const interval = dice.pick([2, 3, 4]);
  const keyHeads = dice.pick([1, 2, 3]);
  const valueHeads = keyHeads * dice.pick([1, 2, 3]);
  const headWidth = dice.pick([8, 16, 24, 32]);
  return {
    layers: interval * (1 + dice.below(2)),
    own: [
      u32("full_attention_interval", interval),
      u32("ssm.conv_kernel", dice.pick([3, 4])),
      u32("ssm.state_size", headWidth),
      u32("ssm.group_count", keyHeads),
      u32("ssm.time_step_rank", valueHeads),
      u32("ssm.inner_size", valueHeads * headWidth),
    ],
  };
}

/** The numbers of Mamba-2 layers of this inner width. */
function mamba2Keys(dice: Dice, inner: number): readonly GgufEntry[] {
  const groups = dice.pick([1, 2]);
  return [
    u32("ssm.conv_kernel", 4),
    u32("ssm.state_size", dice.pick([16, 32])),
    u32("ssm.group_count", groups),
    u32("ssm.time_step_rank", groups * dice.pick([1, 2])),
    u32("ssm.inner_size", inner),
  ];
}

/** Tensors of Mamba-2 layers that a graph asks for. */
const MAMBA2_TENSORS = [CONV_BIAS, "ssm_norm.weight"];

/** KV heads by layer, 0 where there is no attention; there is at least one of both kinds. */
function kvList(dice: Dice, layers: number, kvHeads: number): readonly number[] {
  const list = Array.from({ length: layers }, () => (chance(dice, 40) ? kvHeads : 0));
  const attending = dice.below(layers);
  list[attending] = kvHeads;
  list[(attending + 1) % layers] = 0;
  return list;
}

/** Mamba-2, attention and feed-forward networks, one in each layer and at least one of each. */
function singlePartLists(
  dice: Dice,
  layers: number,
  { kvHeads, feedForward }: { readonly kvHeads: number; readonly feedForward: number },
): readonly GgufEntry[] {
  const first = dice.below(3);
  const kinds = Array.from({ length: layers }, (_, layer) => (layer < 3 ? (first + layer) % 3 : dice.below(3)));
  return [
    arr(
      "attention.head_count_kv",
      "uint32",
      kinds.map((kind) => (kind === 1 ? kvHeads : 0)),
    ),
    arr(
      "feed_forward_length",
      "uint32",
      kinds.map((kind) => (kind === 2 ? feedForward : 0)),
    ),
  ];
}

/** Attention with an output gate, whose name for fused projections is a delta net's. */
function gatedAttention(dice: Dice, usual: UsualShape): ReturnType<Draw> {
  // Releases of llama.cpp differ in how epsilon enters the norms of delta nets: it is as small as in published models.
  const normEpsilon = 1e-6;
  return { normEpsilon, rotaryWidth: partOfHead(dice, usual), projections: [[]], predictingLayers: dice.below(2) };
}

/** Families with recurrent layers by their names in `general.architecture`. */
export const HYBRID_DRAWS: Readonly<Record<string, Draw>> = {
  qwen35: (dice, usual) => {
    const { own, ...parts } = deltaNetParts(dice);
    return { ...parts, ...gatedAttention(dice, usual), own: [...own, sections(usual.headWidth)] };
  },
  qwen35moe: (dice, usual) => {
    const { own, ...parts } = deltaNetParts(dice);
    const mixed = [...experts(dice), ...routerKeys(dice), sharedWidth(dice)];
    return { ...parts, ...gatedAttention(dice, usual), own: [...own, ...mixed, sections(usual.headWidth)] };
  },
  qwen3next: (dice, usual) => {
    const { own, ...parts } = deltaNetParts(dice);
    const mixed = [...experts(dice), ...routerKeys(dice), sharedWidth(dice)];
    const layerOwn = ["ssm_ba.weight", ...some(dice, 40, ["ssm_in.weight"])];
    return { ...parts, ...gatedAttention(dice, usual), predictingLayers: 0, own: [...own, ...mixed], layerOwn };
  },
  granitehybrid: (dice, usual) => {
    const mixed = some(dice, 50, [...experts(dice), ...routerKeys(dice), ...some(dice, 60, [sharedWidth(dice)])]);
    return {
      ...dividedHeads(dice, usual),
      own: [
        ...mamba2Keys(dice, 2 * usual.heads * usual.headWidth),
        arr("attention.head_count_kv", "uint32", kvList(dice, usual.layers, usual.kvHeads)),
        ...multipliers(dice),
        ...mixed,
        ...some(dice, 50, [bool("rope.scaling.finetuned", chance(dice, 50))]),
      ],
      layerOwn: MAMBA2_TENSORS,
      projections: [[], BIASES],
    };
  },
  nemotron_h: (dice, usual) => ({
    layers: 4,
    scaled: false,
    tied: false,
    projections: [[]],
    own: [...mamba2Keys(dice, 64), f32("attention.layer_norm_epsilon", 1e-4), ...singlePartLists(dice, 4, usual)],
    layerOwn: MAMBA2_TENSORS,
  }),
  nemotron_h_moe: (dice, usual) => {
    const latent = some(dice, 50, [u32("moe_latent_size", dice.pick([24, 40]))]);
    return {
      layers: 5,
      scaled: false,
      tied: false,
      projections: [[]],
      own: [
        ...mamba2Keys(dice, 64),
        f32("attention.layer_norm_epsilon", 1e-4),
        ...singlePartLists(dice, 5, usual),
        ...experts(dice),
        u32("expert_shared_count", 1),
        sharedWidth(dice),
        f32("expert_weights_scale", dice.pick([1, 2.5])),
        bool("expert_weights_norm", chance(dice, 50)),
        ...latent,
      ],
      layerOwn: [...MAMBA2_TENSORS, ...SELECTION_BIAS],
    };
  },
  lfm2: (dice, usual) => ({
    ...dividedHeads(dice, usual),
    tied: true,
    projections: [[]],
    own: [
      u32("shortconv.l_cache", dice.pick([3, 4])),
      arr("attention.head_count_kv", "uint32", kvList(dice, usual.layers, usual.kvHeads)),
      ...some(dice, 30, [u32("attention.sliding_window", 7)]),
    ],
  }),
  lfm2moe: (dice, usual) => ({
    ...dividedHeads(dice, usual),
    tied: true,
    projections: [[]],
    own: [
      u32("shortconv.l_cache", dice.pick([3, 4])),
      arr("attention.head_count_kv", "uint32", kvList(dice, usual.layers, usual.kvHeads)),
      ...experts(dice),
      u32("leading_dense_block_count", dice.below(usual.layers)),
      u32("expert_gating_func", 1 + dice.below(3)),
    ],
    layerOwn: SELECTION_BIAS,
  }),
  "falcon-h1": (dice) => ({
    own: mamba2Keys(dice, dice.pick([32, 64])),
    // The name without a suffix is the one that its converter writes.
    layerOwn: [...MAMBA2_TENSORS, "ffn_norm"],
  }),
  mamba2: (dice) => ({
    scaled: false,
    projections: [[]],
    own: mamba2Keys(dice, dice.pick([64, 96])),
    layerOwn: MAMBA2_TENSORS,
  }),
};
