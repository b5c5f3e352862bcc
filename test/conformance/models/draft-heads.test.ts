// Draft heads of every family that has them, compared with a program in float64 that follows their description: the first
// draft at every position, and further drafts from the head's own hidden states.

import { afterAll, describe, expect, it } from "vitest";
import type { Backend, OutputRow, StepInput } from "../../../src/backends/contract.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { arr, bool, f32, type GgufEntry, u32 } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { describeSubjects } from "../subjects.js";
import { DraftHeadOracle, type OracleHead } from "./draft-head-oracle.js";
import { draftHeadModel, type FamilyShape } from "./family-model.js";
import { logProbabilities } from "./log-probabilities.js";
import { randomTokens } from "./random-model.js";

const EXACT = 2e-3;
const TOKENS = 24;
const DRAFTS = 3;
const EPSILON = 1e-5;
const ROPE_BASE = 10_000;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const experts = (count: number, used: number): GgufEntry[] => [
  u32("expert_count", count),
  u32("expert_used_count", used),
  u32("expert_feed_forward_length", 32),
];
const DELTA_NET: readonly GgufEntry[] = [
  u32("full_attention_interval", 2),
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];
const MAMBA2: readonly GgufEntry[] = [
  u32("ssm.conv_kernel", 4),
  u32("ssm.state_size", 16),
  u32("ssm.group_count", 2),
  u32("ssm.time_step_rank", 4),
  u32("ssm.inner_size", 64),
];
const SECTIONS = arr("rope.dimension_sections", "int32", [2, 2, 2, 0]);
const SHARED = u32("expert_shared_feed_forward_length", 24);

const hybrid = (
  architecture: string,
  keys: readonly GgufEntry[],
  layerTensors: readonly string[] = [],
): FamilyShape => ({
  architecture,
  layers: 4,
  headWidth: 16,
  rotaryWidth: 8,
  normEpsilon: EPSILON,
  ropeBase: ROPE_BASE,
  keys: () => [...DELTA_NET, ...keys],
  layerTensors: () => layerTensors,
});

const gated: Omit<OracleHead, "network"> = {
  block: 4,
  heads: 4,
  kvHeads: 2,
  keyWidth: 16,
  rotaryWidth: 8,
  ropeBase: ROPE_BASE,
  epsilon: EPSILON,
  outputGate: true,
  secondNorm: "post_attention_norm",
  lastNorm: "rms",
};
const mixture = {
  kind: "experts",
  used: 2,
  gating: "softmax",
  renormalize: true,
  scale: 1,
  activation: "swiglu",
} as const;

interface HeadOfFamily {
  readonly title: string;
  readonly shape: FamilyShape;
  readonly head: OracleHead;
}

type HeadCase = HeadOfFamily & { readonly chunk: number };

const CASES: readonly HeadOfFamily[] = [
  { title: "qwen35", shape: hybrid("qwen35", [SECTIONS]), head: { ...gated, network: { kind: "swiglu" } } },
  {
    title: "qwen35moe",
    shape: hybrid("qwen35moe", [SECTIONS, ...experts(6, 2), SHARED]),
    head: { ...gated, network: mixture },
  },
  {
    title: "qwen3next",
    shape: hybrid("qwen3next", [...experts(6, 2), SHARED], ["ssm_ba.weight"]),
    head: { ...gated, network: mixture },
  },
  {
    title: "deepseek2 (GLM-4.7-Flash)",
    shape: {
      architecture: "deepseek2",
      kvHeads: 1,
      headWidth: 48,
      valueWidth: 40,
      rotaryWidth: 8,
      normEpsilon: EPSILON,
      ropeBase: ROPE_BASE,
      keys: () => [
        ...experts(6, 2),
        u32("attention.kv_lora_rank", 40),
        u32("attention.q_lora_rank", 24),
        u32("attention.key_length_mla", 24),
        u32("attention.value_length_mla", 16),
        u32("leading_dense_block_count", 1),
        u32("expert_shared_count", 1),
        u32("expert_gating_func", 2),
        bool("expert_weights_norm", true),
        f32("expert_weights_scale", 1.5),
      ],
      layerTensors: () => ["attn_k_b.weight", "exp_probs_b.bias"],
    },
    head: {
      block: 3,
      heads: 4,
      kvHeads: 1,
      keyWidth: 24,
      rotaryWidth: 8,
      ropeBase: ROPE_BASE,
      epsilon: EPSILON,
      latent: { width: 40, valueWidth: 16 },
      secondNorm: "ffn_norm",
      lastNorm: "rms",
      network: { ...mixture, gating: "sigmoid", scale: 1.5 },
    },
  },
  {
    title: "nemotron_h_moe",
    shape: {
      architecture: "nemotron_h_moe",
      layers: 3,
      headWidth: 16,
      normEpsilon: EPSILON,
      keys: () => [
        ...MAMBA2,
        ...experts(6, 2),
        SHARED,
        f32("attention.layer_norm_epsilon", 1e-4),
        arr("attention.head_count_kv", "uint32", [0, 2, 0]),
        arr("feed_forward_length", "uint32", [0, 0, 32]),
        bool("expert_weights_norm", true),
        f32("expert_weights_scale", 2.5),
      ],
      layerTensors: () => ["ssm_conv1d.bias", "ssm_norm.weight", "exp_probs_b.bias"],
    },
    head: {
      block: 3,
      heads: 4,
      kvHeads: 2,
      keyWidth: 16,
      rotaryWidth: 0,
      ropeBase: ROPE_BASE,
      epsilon: EPSILON,
      secondNorm: "post_attention_norm",
      lastNorm: "layer",
      lastEpsilon: 1e-4,
      network: { ...mixture, gating: "sigmoid", scale: 2.5, activation: "relu2" },
    },
  },
];

const TRUNK_SLOT = 0;
const DRAFT_SLOT = 1;

/** A step of one sequence at these positions. */
function stepOf(tokens: readonly number[], position: number, slots: { read: number; write: number }): StepInput {
  return {
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(tokens, (_, index) => position + index),
    sequenceOffsets: Int32Array.of(0, tokens.length),
    blockTables: [Int32Array.of(0, 1, 2, 3)],
    outputs: [],
    stateReads: Int32Array.of(slots.read),
    stateWrites: Int32Array.from(tokens, (_, index) => (index === tokens.length - 1 ? slots.write : -1)),
  };
}

const valuesOf = (row: OutputRow, kind: "logits" | "hidden"): Float32Array => {
  if (row.kind === "logits" && kind === "logits") return row.logits;
  if (row.kind === "hidden" && kind === "hidden") return row.values;
  throw new Error(`expected ${kind}, found ${row.kind}`);
};

const bestOf = (logits: ArrayLike<number>): number =>
  Array.from(logits).reduce((best, logit, token, all) => (logit > all[best] ? token : best), 0);

function distanceOf(found: Float32Array, expected: Float64Array): number {
  const [ours, theirs] = [found, Float32Array.from(expected)].map((row) => logProbabilities(row, row.length));
  return Math.max(...Array.from(ours, (value, token) => Math.abs(value - theirs[token])));
}

/** Drafts at every position of a text, three deep, after prompts in steps of `chunk` tokens. */
async function compareDrafts(backend: Backend, { title, shape, head, chunk }: HeadCase): Promise<void> {
  const path = folder.file(`${title}.gguf`);
  const model = draftHeadModel(title.length, shape);
  await writeGguf(path, model);
  await using loader = await GgufLoader.open(path);
  const options = { blockTokens: 16, contextTokens: 64, kvCacheType: "f32", draftHead: true } as const;
  await using plan = ExecutionPlan.fromLoader(loader, backend, options);
  using cache = plan.createKvCache(64, 2);
  const oracle = new DraftHeadOracle(model.tensors, head);
  const tokens = [...randomTokens(7, TOKENS)];
  const hidden: Float32Array[] = [];
  for (let start = 0; start + 1 < tokens.length; start += chunk) {
    const part = tokens.slice(start, Math.min(start + chunk, tokens.length - 1));
    const step = stepOf(part, start, { read: start === 0 ? -1 : TRUNK_SLOT, write: TRUNK_SLOT });
    const outputs = part.map((_, row) => ({ row, want: { kind: "hidden" } as const }));
    const rows = await plan.step({ ...step, outputs }, cache);
    hidden.push(...rows.map((row) => valuesOf(row, "hidden")));
    // What the head would have drafted at the positions inside the step is part of what it attends to.
    for (let position = start; position + 1 <= start + part.length; position++)
      if (position > 0) oracle.draft(tokens[position], hidden[position - 1], position);
    let [token, position, read] = [tokens[start + part.length], start + part.length, TRUNK_SLOT];
    let before: ArrayLike<number> = hidden[position - 1];
    for (let draft = 0; draft < DRAFTS; draft++) {
      const expected = oracle.draft(token, before, position);
      const drafting = stepOf([token], position, { read, write: DRAFT_SLOT });
      const wanted = { ...drafting, outputs: [{ row: 0, want: { kind: "logits" } as const }] };
      const [row] = (await plan.draftHead?.step(wanted, cache)) ?? [];
      expect(distanceOf(valuesOf(row, "logits"), expected.logits), `draft ${draft} at ${position}`).toBeLessThan(EXACT);
      [token, position, read, before] = [bestOf(expected.logits), position + 1, DRAFT_SLOT, expected.hidden];
    }
  }
}

// Prompts in one step, and in several: the hidden state passes from one to the next.
const ALL = CASES.flatMap((each) => [1, 5].map((chunk) => ({ ...each, chunk })));

describeSubjects(
  (subject) => {
    it.for(subject.inTurn(ALL, ALL.slice(1, 2)))("draft head of $title, prompt in steps of $chunk", async (each) => {
      await using backend = subject.create();
      await compareDrafts(backend, each);
    });
  },
  { waveSize: 32 },
);

describe("draft heads", () => {
  it.for(ALL)("$title, prompt in steps of $chunk", async (each) => {
    await using backend = new ReferenceBackend();
    await compareDrafts(backend, each);
  });

  it("rejects a draft head for a model without one", async () => {
    const path = folder.file("none.gguf");
    const { tensors, metadata } = draftHeadModel(1, CASES[0].shape);
    await writeGguf(path, { metadata, tensors: tensors.filter(({ name }) => !name.includes("nextn")) });
    await using loader = await GgufLoader.open(path);
    await using backend = new ReferenceBackend();
    expect(() => ExecutionPlan.fromLoader(loader, backend, { draftHead: true })).toThrow(/no draft head/);
    await using plan = ExecutionPlan.fromLoader(loader, backend);
    expect(plan.draftHead).toBeUndefined();
  });
});
