// What the random shapes of families are drawn from, and what several families share.

import { arr, type GgufEntry, u32 } from "../../../src/gguf/entry.js";
import type { Dice } from "../../support/dice.js";
import type { FamilyShape } from "./family-model.js";

/** What a family adds to, or replaces of, the numbers that all have. */
export type Draw = (dice: Dice, usual: UsualShape) => Partial<FamilyShape> & Parts;

/** Keys and tensors, before they are joined with those that all families may have. */
export interface Parts {
  readonly own?: readonly GgufEntry[];
  readonly layerOwn?: readonly string[];
  /** How queries, keys and values may be projected; absent: by one or three tensors, with or without biases. */
  readonly projections?: readonly (readonly string[])[];
  /** Whether the rope may be scaled; absent: yes. */
  readonly scaled?: boolean;
}

export interface UsualShape {
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headWidth: number;
  readonly feedForward: number;
}

export const BIASES = ["attn_q.bias", "attn_k.bias", "attn_v.bias"];
export const SELECTION_BIAS = ["exp_probs_b.bias"];

/** Heads that divide the embedding. */
export const dividedHeads = (_: Dice, { heads, headWidth }: UsualShape): Partial<FamilyShape> => ({
  width: heads * headWidth,
});
export const sections = (headWidth: number): GgufEntry =>
  arr("rope.dimension_sections", "int32", [headWidth / 2 - 2, 1, 1, 0]);
export const sharedWidth = (dice: Dice): GgufEntry => u32("expert_shared_feed_forward_length", dice.pick([24, 40]));
