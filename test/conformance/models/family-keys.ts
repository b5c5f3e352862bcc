// Random keys that files of several families have: experts, routers, ropes, windows, multipliers.

import { bool, f32, type GgufEntry, str, u32 } from "../../../src/gguf/entry.js";
import type { Dice } from "../../support/dice.js";

/** True in this share of the cases. */
export const chance = (dice: Dice, percent: number): boolean => dice.below(100) < percent;
/** All of the items in this share of the cases, otherwise none. */
export const some = <Item>(dice: Dice, percent: number, items: readonly Item[]): readonly Item[] =>
  chance(dice, percent) ? items : [];

/** All of a head, or half or a quarter of it, in whole pairs. */
export function partOfHead(dice: Dice, { headWidth }: { readonly headWidth: number }): number {
  return dice.pick([headWidth, 2 * Math.ceil(headWidth / 4), 2 * Math.ceil(headWidth / 8)]);
}

/** Keys of a mixture of experts, in groups or not. */
export function experts(dice: Dice): readonly GgufEntry[] {
  const groups = dice.pick([1, 1, 2, 3, 4]);
  const count = groups === 1 ? dice.pick([3, 5, 8, 16, 24]) : groups * (2 + dice.below(4));
  const groupsUsed = 1 + dice.below(groups - 1);
  const reachable = (count / groups) * groupsUsed;
  return [
    u32("expert_count", count),
    u32("expert_used_count", 1 + dice.below(Math.min(reachable, 6))),
    u32("expert_feed_forward_length", dice.pick([24, 32, 56])),
    ...(groups === 1 ? [] : [u32("expert_group_count", groups), u32("expert_group_used_count", groupsUsed)]),
  ];
}

/** Keys of a router, which many families ignore. */
export function routerKeys(dice: Dice): readonly GgufEntry[] {
  return some(dice, 60, [
    f32("expert_weights_scale", dice.pick([0, 1, 2.5])),
    bool("expert_weights_norm", chance(dice, 50)),
  ]);
}

/** Linear scaling or YaRN, with keys that most families ignore. */
export function scaling(dice: Dice): readonly GgufEntry[] {
  const factor = some(dice, 30, [f32("rope.scaling.attn_factor", 1.2)]);
  const stretched = f32("rope.scaling.factor", dice.pick([2, 4, 32]));
  return dice.pick([
    [],
    factor,
    [...factor, str("rope.scaling.type", "linear"), stretched],
    [...factor, stretched],
    [
      ...factor,
      str("rope.scaling.type", "yarn"),
      stretched,
      u32("rope.scaling.original_context_length", dice.pick([16, 40, 64])),
      ...some(dice, 50, [
        f32("rope.scaling.yarn_beta_fast", 20),
        f32("rope.scaling.yarn_beta_slow", 2),
        f32("rope.scaling.yarn_attn_factor", 1.4),
        f32("rope.scaling.yarn_ext_factor", 0.5),
        f32("rope.scaling.yarn_log_multiplier", dice.pick([0.1, 0.7])),
      ]),
    ],
  ]);
}

/** A window, and perhaps a period of window layers other than the family's own. */
export function windows(dice: Dice): readonly GgufEntry[] {
  return [
    u32("attention.sliding_window", dice.pick([3, 7, 16, 33])),
    ...some(dice, 40, [u32("attention.sliding_window_pattern", dice.pick([0, 2, 3]))]),
    ...some(dice, 40, [f32("rope.freq_base_swa", 700)]),
  ];
}

/** Granite's multipliers. */
export const multipliers = (dice: Dice): readonly GgufEntry[] => [
  f32("logit_scale", dice.between(1, 3)),
  ...some(dice, 80, [f32("attention.scale", dice.between(0.1, 0.4))]),
  ...some(dice, 80, [f32("embedding_scale", dice.between(2, 4))]),
  ...some(dice, 80, [f32("residual_scale", dice.between(0.4, 0.8))]),
];
