// Draft heads of every family that has them, compared with a program in float64 that follows their description: the first
// draft at every position, and further drafts from the head's own hidden states.

import { afterAll, describe, expect, it } from "vitest";
import type { Backend, OutputRow, StepInput } from "../../../src/backends/contract.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { describeSubjects } from "../subjects.js";
import { HEAD_CASES, type HeadOfFamily } from "./draft-head-cases.js";
import { DraftHeadOracle } from "./draft-head-oracle.js";
import { draftHeadModel } from "./family-model.js";
import { logProbabilities } from "./log-probabilities.js";
import { randomTokens } from "./random-model.js";

const EXACT = 2e-3;
const TOKENS = 24;
const DRAFTS = 3;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

type HeadCase = HeadOfFamily & { readonly chunk: number };

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
const ALL = HEAD_CASES.flatMap((each) => [1, 5].map((chunk) => ({ ...each, chunk })));

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
    const { tensors, metadata } = draftHeadModel(1, HEAD_CASES[0].shape);
    await writeGguf(path, { metadata, tensors: tensors.filter(({ name }) => !name.includes("nextn")) });
    await using loader = await GgufLoader.open(path);
    await using backend = new ReferenceBackend();
    expect(() => ExecutionPlan.fromLoader(loader, backend, { draftHead: true })).toThrow(/no draft head/);
    await using plan = ExecutionPlan.fromLoader(loader, backend);
    expect(plan.draftHead).toBeUndefined();
  });
});
