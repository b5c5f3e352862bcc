// Attention over the paged cache on every instruction set against `reference`, which rounds keys and values as each
// cache type does: prompts, single tokens, several sequences, shared blocks, long spans.

import { expect, it } from "vitest";
import type { KvCacheType, StepInput } from "../../src/backends/contract.js";
import { attentionCase, expectAttention, type Heads } from "./attention-case.js";
import { hiddenOf, plainStep, runSteps } from "./harness.js";
import { describeSubjects } from "./subjects.js";

const SHAPES: readonly Heads[] = [
  { heads: 4, kvHeads: 1, keyWidth: 64, valueWidth: 64 },
  { heads: 12, kvHeads: 4, keyWidth: 32, valueWidth: 96 },
  { heads: 9, kvHeads: 1, keyWidth: 128, valueWidth: 64 },
];
const ODD: Heads = { heads: 6, kvHeads: 3, keyWidth: 20, valueWidth: 7 };
const TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

describeSubjects((subject) => {
  const shapes = TYPES.flatMap((type) =>
    (type === "q8_0" ? SHAPES : [...SHAPES, ODD]).map((heads) => ({ type, ...heads })),
  );
  const few = shapes.filter(({ heads }) => heads === SHAPES[1].heads);
  it.each(subject.spread(shapes, few))(
    "$type cache: $heads heads over $kvHeads, keys of $keyWidth, values of $valueWidth",
    async ({ type, ...heads }) => {
      const wanted = attentionCase(heads, { type, blockTokens: 16, blocks: 8 }, 60);
      const steps = [
        plainStep(23),
        plainStep(1, { first: 23 }),
        plainStep(9, { first: 24 }),
        plainStep(17, { first: 33 }),
      ];
      await expectAttention(subject, wanted, steps, heads.heads * heads.valueWidth);
    },
  );

  it.each(subject.spread([1, 5, 32, 33], [5]))("blocks of %i tokens", async (blockTokens) => {
    const [heads] = SHAPES;
    const wanted = attentionCase(heads, { type: "f16", blockTokens, blocks: 50, rotated: true }, 50);
    const steps = [
      plainStep(31, { blockTokens }),
      plainStep(2, { first: 31, blockTokens }),
      plainStep(1, { first: 33, blockTokens }),
    ];
    await expectAttention(subject, wanted, steps, heads.heads * heads.valueWidth);
  });

  it("spans longer than one piece of work", async () => {
    const heads = { heads: 2, kvHeads: 1, keyWidth: 16, valueWidth: 16 };
    const wanted = attentionCase(heads, { type: "f16", blockTokens: 32, blocks: 24, rotated: true }, 700);
    const steps = [
      plainStep(500, { blockTokens: 32 }),
      plainStep(150, { first: 500, blockTokens: 32 }),
      plainStep(1, { first: 650, blockTokens: 32 }),
    ];
    const wanting = steps.map((step) => ({ ...step, outputs: step.outputs.slice(-40) }));
    await expectAttention(subject, wanted, wanting, 32);
  });

  it("several sequences of one step, with a shared beginning and blocks in any order", async () => {
    const [, heads] = SHAPES;
    const wanted = attentionCase(heads, { type: "f16", blockTokens: 4, blocks: 16, rotated: true }, 40);
    const shared = { ...plainStep(8, { blockTokens: 4 }), blockTables: [Int32Array.of(7, 3)] };
    const together: StepInput = {
      tokens: Int32Array.of(20, 21, 22, 30, 31, 32, 33, 34, 35, 36),
      positions: Int32Array.of(8, 9, 10, 8, 0, 1, 2, 3, 4, 5),
      sequenceOffsets: Int32Array.of(0, 3, 4, 10),
      blockTables: [Int32Array.of(7, 3, 15), Int32Array.of(7, 3, 0), Int32Array.of(9, 2)],
      outputs: [0, 2, 3, 4, 9].map((row) => ({ row, want: { kind: "hidden" } })),
    };
    await expectAttention(subject, wanted, [shared, together], heads.heads * heads.valueWidth);
  });

  it("keeps what one sequence has spoilt to itself", async () => {
    const heads = { heads: 2, kvHeads: 1, keyWidth: 32, valueWidth: 32 };
    const wanted = attentionCase(heads, { type: "f32", blockTokens: 4, blocks: 8 }, 12);
    const { inputs } = wanted.weights;
    const data = inputs.data.slice();
    new Float32Array(data.buffer).fill(Number.NaN, 5 * inputs.shape[0], 6 * inputs.shape[0]);
    const spoilt = { ...wanted, weights: { inputs: { ...inputs, data } } };
    // Token 5 is NaN throughout. The second step uses its block again for another sequence.
    const step = (tokens: readonly number[], block: number): StepInput => ({
      tokens: Int32Array.from(tokens),
      positions: Int32Array.from(tokens, (_, index) => index),
      sequenceOffsets: Int32Array.of(0, tokens.length),
      blockTables: [Int32Array.of(block)],
      outputs: tokens.map((_, row) => ({ row, want: { kind: "hidden" } })),
    });
    await using backend = subject.create();
    const [bad, good, alone] = await runSteps(backend, spoilt, [
      step([1, 2, 3, 5], 2),
      step([1, 2], 2),
      step([1, 2], 6),
    ]);
    expect(bad.map(({ kind }) => kind)).toEqual(["hidden", "hidden", "hidden", "not-finite"]);
    expect(hiddenOf(good, 64)).toEqual(hiddenOf(alone, 64));
  });
});
