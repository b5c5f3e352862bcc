// Small models of every family with broken keys and tensors: counts of experts and groups, latent widths, windows, shared layers,
// multipliers, lists by layer. A case is a seed; it passes if the model runs with finite results or is refused by a RocmForgeError.

import { rmSync } from "node:fs";
import { RocmForgeError } from "../../src/errors.js";
import { arr, bool, f32, f64, type GgufEntry, i32, str, u32, u64 } from "../../src/gguf/entry.js";
import { GgufFile } from "../../src/gguf/file.js";
import { type GgufPlan, writeGguf } from "../../src/gguf/writer.js";
import { familyModel } from "../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../conformance/models/family-shapes.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { useModel } from "./model-mutation.js";

/** Keys that families read, without the architecture's prefix. */
const KEYS = [
  "block_count",
  "embedding_length",
  "nextn_predict_layers",
  "feed_forward_length",
  "attention.head_count",
  "attention.head_count_kv",
  "attention.key_length",
  "attention.value_length",
  "attention.key_length_swa",
  "attention.value_length_swa",
  "rope.dimension_count",
  "rope.dimension_count_swa",
  "rope.dimension_sections",
  "rope.freq_base",
  "rope.freq_base_swa",
  "rope.scaling.type",
  "rope.scaling.factor",
  "rope.scaling.original_context_length",
  "rope.scaling.attn_factor",
  "rope.scaling.finetuned",
  "rope.scaling.yarn_log_multiplier",
  "rope.scaling.yarn_beta_fast",
  "rope.scaling.yarn_beta_slow",
  "attention.layer_norm_epsilon",
  "attention.layer_norm_rms_epsilon",
  "attention.sliding_window",
  "attention.sliding_window_pattern",
  "attention.scale",
  "attention.causal",
  "attention.temperature_scale",
  "attention.temperature_length",
  "attention.q_lora_rank",
  "attention.kv_lora_rank",
  "attention.key_length_mla",
  "attention.value_length_mla",
  "attention.shared_kv_layers",
  "attn_logit_softcapping",
  "final_logit_softcapping",
  "logit_scale",
  "residual_scale",
  "embedding_scale",
  "expert_count",
  "expert_used_count",
  "expert_feed_forward_length",
  "expert_shared_count",
  "expert_shared_feed_forward_length",
  "expert_group_count",
  "expert_group_used_count",
  "expert_weights_norm",
  "expert_weights_scale",
  "expert_gating_func",
  "leading_dense_block_count",
  "interleave_moe_layer_step",
  "embedding_length_per_layer_input",
] as const;

const NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 64, 1000, 2 ** 20, 2 ** 31 - 1, 2 ** 32 - 1];
const REALS = [0, -1, 0.5, 2.5, 1e-30, 1e30, 3e38, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
const TEXTS = ["yarn", "linear", "none", "longrope", "", "dynamic"];

function brokenEntry(dice: Dice, key: string): GgufEntry {
  const list = <Item>(items: readonly Item[]): readonly Item[] =>
    Array.from({ length: dice.below(9) }, () => dice.pick(items));
  switch (dice.below(10)) {
    case 0:
      return i32(key, -1 - dice.below(3));
    case 1:
    case 2:
      return f32(key, dice.pick(REALS));
    case 3:
      return f64(key, dice.pick([1e300, 5e-324, -1e300, 0.1]));
    case 4:
      return u64(key, dice.pick([2 ** 40, 2 ** 52, 3]));
    case 5:
      return arr(key, "uint32", list(NUMBERS));
    case 6:
      return arr(
        key,
        "bool",
        list([0, 1]).map((flag) => flag === 1),
      );
    case 7:
      return dice.pick([bool(key, true), bool(key, false), str(key, dice.pick(TEXTS))]);
    default:
      return u32(key, dice.pick(NUMBERS));
  }
}

function brokenMetadata(dice: Dice, metadata: readonly GgufEntry[], architecture: string): readonly GgufEntry[] {
  let entries = metadata;
  for (let count = dice.pick([1, 1, 1, 2, 3]); count > 0; count--) {
    const key = `${architecture}.${dice.pick(KEYS)}`;
    const others = entries.filter((entry) => entry.key !== key);
    entries = dice.below(6) === 0 ? others : [...others, brokenEntry(dice, key)];
  }
  return entries;
}

/** A tensor is dropped, gets another name, or loses its last rows. */
function brokenTensors(dice: Dice, tensors: GgufPlan["tensors"]): GgufPlan["tensors"] {
  const victim = dice.below(tensors.length);
  return tensors.flatMap((tensor, index) => {
    if (index !== victim) return [tensor];
    const { name, shape, data } = tensor;
    const rows = shape[shape.length - 1];
    if (dice.below(3) === 0) return [];
    if (dice.below(2) === 0 || rows < 2 || !(data instanceof Uint8Array)) return [{ ...tensor, name: `${name}.other` }];
    const kept = 1 + dice.below(rows - 1);
    return [
      { ...tensor, shape: [...shape.slice(0, -1), kept], data: data.subarray(0, (data.byteLength / rows) * kept) },
    ];
  });
}

const MAX_LAYERS = 8;

interface SoundModel extends GgufPlan {
  readonly architecture: string;
}

const made = new Map<string, SoundModel>();

function soundModel(family: string, number: number): SoundModel {
  const { name, seed, shape } = familyCase(family, number);
  const { architecture, layers = MAX_LAYERS } = shape;
  const model = made.get(name) ?? {
    architecture,
    ...familyModel(seed, { ...shape, layers: Math.min(layers, MAX_LAYERS) }),
  };
  made.set(name, model);
  return model;
}

export interface FamilyReport {
  readonly ran: number;
  readonly refused: ReadonlyMap<string, number>;
}

/** `ROCMFORGE_FUZZ_SEED=n` reproduces the case with that seed, alone. */
export async function fuzzFamilies(firstSeed: number, cases: number): Promise<FamilyReport> {
  const given = process.env["ROCMFORGE_FUZZ_SEED"];
  const [first, count] = given === undefined ? [firstSeed, cases] : [Number(given), 1];
  using folder = new TemporaryFolder();
  const refused = new Map<string, number>();
  let ran = 0;
  for (let seed = first; seed < first + count; seed++) {
    const dice = new Dice(seed);
    const { architecture, metadata, tensors } = soundModel(dice.pick(FAMILY_NAMES), dice.below(2));
    const path = folder.file(`seed-${seed}.gguf`);
    await writeGguf(path, {
      metadata: brokenMetadata(dice, metadata, architecture),
      tensors: dice.below(5) === 0 ? brokenTensors(dice, tensors) : tensors,
    });
    try {
      using file = await GgufFile.open(path);
      await useModel(file);
      ran++;
    } catch (error) {
      if (!(error instanceof RocmForgeError)) throw new Error(`family with seed ${seed}`, { cause: error });
      refused.set(error.code, (refused.get(error.code) ?? 0) + 1);
    }
    rmSync(path);
  }
  return { ran, refused };
}
