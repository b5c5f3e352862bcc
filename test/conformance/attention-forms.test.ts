// The forms of attention that families are made of against `reference`: norms and rotations of heads, group sizes, wide
// heads, chunks, temperature, latent attention, layers of different shapes. A backend without a kernel for a form skips
// with its own reason.

import { afterAll, describe, it, type TestContext } from "vitest";
import type { Backend, KvCacheType, StepInput } from "../../src/backends/contract.js";
import { attentionCase, type AttentionAttributes, expectAttention, type Heads } from "./attention-case.js";
import {
  FORM_BLOCK_TOKENS,
  latentCase,
  type LatentShape,
  mixedLayersCase,
  type Preparation,
  preparedCase,
} from "./attention-forms.js";
import { plainStep, type ProgramCase, programOf, unsupportedReason } from "./harness.js";
import { describeSubjects, type Subject } from "./subjects.js";

type Skip = TestContext["skip"];

/**
 * If keys are computed, one at the border between two levels of the cache's type may be rounded either way: a step of q8_0, or
 * 2⁻¹⁰ of a value for about one in a thousand halves.
 */
const COMPUTED_TOLERANCES: Readonly<Partial<Record<KvCacheType, number>>> = { q8_0: 1e-6, f16: 1e-9 };

const TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** Prefill, decode, a chunk shorter and a chunk longer than a block, decode. */
const STEPS: readonly StepInput[] = [
  plainStep(23),
  plainStep(1, { first: 23 }),
  plainStep(9, { first: 24 }),
  plainStep(17, { first: 33 }),
  plainStep(1, { first: 50 }),
];
const ROWS = 60;

/** Positions beyond the first split of attention, for decode and prefill. */
const LONG_STEPS: readonly StepInput[] = [
  plainStep(140),
  plainStep(1, { first: 140 }),
  plainStep(12, { first: 141 }),
  plainStep(3, { first: 153 }),
].map((step) => ({ ...step, outputs: step.outputs.slice(-6) }));
const LONG_ROWS = 160;
const MANY_SPLIT_ROWS = 720;

const QWEN: Heads = { heads: 8, kvHeads: 2, keyWidth: 128, valueWidth: 128 };
const SMALL: Heads = { heads: 6, kvHeads: 3, keyWidth: 64, valueWidth: 32 };
const HALVES = { rotaryWidth: 128, style: "halves" } as const;

const PREPARATIONS: readonly (Preparation & { readonly title: string })[] = [
  { title: "norms before the rotation", heads: QWEN, norm: "before", rotation: HALVES },
  { title: "norms after the rotation", heads: QWEN, norm: "after", rotation: HALVES, normType: "F16" },
  { title: "norms and no rotation", heads: SMALL, norm: "before", normType: "BF16" },
  { title: "neither norms nor rotation", heads: SMALL },
  {
    title: "norms without weights",
    heads: SMALL,
    norm: "after",
    unweighted: true,
    valueNorm: true,
    rotation: { rotaryWidth: 64, style: "adjacent" },
  },
  {
    title: "values normed, keys with weights",
    heads: { heads: 2, kvHeads: 1, keyWidth: 512, valueWidth: 512 },
    norm: "before",
    valueNorm: true,
    rotation: { rotaryWidth: 128, style: "halves", factors: true },
  },
  {
    title: "a partial rotation with factors",
    heads: SMALL,
    norm: "before",
    rotation: { rotaryWidth: 20, style: "halves", factors: true },
  },
  {
    title: "a rotation of columns in the middle",
    heads: SMALL,
    rotation: { rotaryWidth: 32, firstColumn: 8, style: "adjacent" },
  },
  {
    title: "a rotation of the last columns, norms after it",
    heads: SMALL,
    norm: "after",
    rotation: { rotaryWidth: 16, firstColumn: 48, style: "halves" },
    attributes: { window: 12 },
  },
];

const CHUNKS: readonly AttentionAttributes[] = [
  { chunk: 1 },
  { chunk: 7 },
  { chunk: FORM_BLOCK_TOKENS },
  { chunk: 33 },
  { chunk: 1000 },
  { chunk: 20, window: 9 },
];

const TEMPERATURES: readonly AttentionAttributes[] = [
  { temperature: 0.1, temperatureLength: 8, temperatureOffset: 1 },
  { temperature: 0.7, temperatureLength: 3 },
  { temperature: 0.3, temperatureLength: 1000, temperatureOffset: 3000, chunk: 16 },
];

const GROUPS: readonly Heads[] = [
  ...[1, 2, 3, 5, 8, 16, 17, 128].map((heads) => ({ heads, kvHeads: 1, keyWidth: 32, valueWidth: 32 })),
  { heads: 12, kvHeads: 2, keyWidth: 64, valueWidth: 64 },
];

const WIDE: readonly Heads[] = [
  { heads: 4, kvHeads: 2, keyWidth: 512, valueWidth: 512 },
  { heads: 3, kvHeads: 1, keyWidth: 320, valueWidth: 288 },
  { heads: 9, kvHeads: 1, keyWidth: 192, valueWidth: 128 },
  { heads: 3, kvHeads: 3, keyWidth: 256, valueWidth: 512 },
];

const LATENT: readonly LatentShape[] = [
  { heads: 20, latentWidth: 512, rotaryWidth: 64 },
  { heads: 16, latentWidth: 512, rotaryWidth: 64, attributes: { temperature: 0.1, temperatureLength: 16 } },
  { heads: 3, latentWidth: 96, rotaryWidth: 32 },
  { heads: 33, latentWidth: 64, rotaryWidth: 32, attributes: { softCap: 8 } },
];

describeSubjects((subject) => {
  const expectCase = async (
    wanted: ProgramCase,
    steps: readonly StepInput[],
    width: number,
    skip: Skip,
  ): Promise<void> => {
    skipUnsupported(subject, wanted, skip);
    const tolerance = computesKeys(wanted) ? COMPUTED_TOLERANCES[wanted.kvCacheType ?? "f16"] : undefined;
    await expectAttention(subject, wanted, steps, width, tolerance);
  };

  const preparations = TYPES.flatMap((type) => PREPARATIONS.map((preparation) => ({ type, ...preparation })));
  const fewPreparations = preparations.filter(({ type, title }) => type === "f16" && title.startsWith("norms before"));
  it.for(subject.spread(preparations, fewPreparations))(
    "$type cache: $title",
    async ({ type, ...wanted }, { skip }) => {
      const { heads, valueWidth } = wanted.heads;
      await expectCase(preparedCase(wanted, type, ROWS), STEPS, heads * valueWidth, skip);
    },
  );

  it.for(subject.spread(PREPARATIONS, PREPARATIONS.slice(1, 2)))("several splits: $title", async (wanted, { skip }) => {
    const { heads, valueWidth } = wanted.heads;
    await expectCase(preparedCase(wanted, "f16", LONG_ROWS), LONG_STEPS, heads * valueWidth, skip);
  });

  const limited = [...CHUNKS, ...TEMPERATURES].map((each) => ({ title: JSON.stringify(each), each }));
  it.for(subject.spread(limited, [limited[3], limited[6]]))("$title", async ({ each }, { skip }) => {
    const heads = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
    const wanted = attentionCase(heads, { type: "f16", blockTokens: 16, blocks: 16, rotated: true }, ROWS, each);
    await expectCase(wanted, STEPS, heads.heads * heads.valueWidth, skip);
  });

  it.for(subject.spread([100, 128, 129], [100]))("long sequences in chunks of %i", async (chunk, { skip }) => {
    const heads = { heads: 2, kvHeads: 1, keyWidth: 16, valueWidth: 16 };
    const cache = { type: "f16", blockTokens: 16, blocks: 16, rotated: true } as const;
    const wanted = attentionCase(heads, cache, LONG_ROWS, { chunk, sinks: [1, -1] });
    await expectCase(wanted, LONG_STEPS, 32, skip);
  });

  const shapes = (list: readonly Heads[]): readonly (Heads & { readonly type: KvCacheType })[] =>
    TYPES.flatMap((type) => list.map((heads) => ({ type, ...heads })));
  describe("heads of any size", () => {
    const all = [...shapes(GROUPS), ...shapes(WIDE)];
    const few = all.filter(({ type, heads, keyWidth }) => type === "f16" && (heads === 17 || keyWidth === 512));
    it.for(subject.spread(all, few))(
      "$type cache: $heads heads over $kvHeads, keys of $keyWidth, values of $valueWidth",
      async ({ type, ...heads }, { skip }) => {
        const wanted = attentionCase(heads, { type, blockTokens: 16, blocks: 8 }, ROWS);
        await expectCase(wanted, STEPS, heads.heads * heads.valueWidth, skip);
      },
    );

    it.for(subject.spread(WIDE, []))(
      "several splits: $heads heads over $kvHeads, keys of $keyWidth, values of $valueWidth",
      async (heads, { skip }) => {
        const wanted = attentionCase(heads, { type: "f16", blockTokens: 16, blocks: 16 }, LONG_ROWS, { sinks: [1] });
        await expectCase(wanted, LONG_STEPS, heads.heads * heads.valueWidth, skip);
      },
    );
  });

  it.for(subject.spread([undefined, 700], [undefined]))(
    "many splits, with a window of %s",
    async (window, { skip }) => {
      const heads = { heads: 4, kvHeads: 2, keyWidth: 32, valueWidth: 64 };
      const cache = { type: "f16", blockTokens: 32, blocks: 80, rotated: true } as const;
      const attributes = window === undefined ? {} : { window };
      const wanted = attentionCase(heads, cache, 2400, { ...attributes, sinks: [0.5] });
      // What no step has stored is zero.
      const at = (count: number, first: number): StepInput => plainStep(count, { first, blockTokens: 32 });
      await expectCase(wanted, [at(20, 0), at(5, 1500), at(8, 2200), at(1, 2208), at(3, 2300), at(1, 2303)], 256, skip);
    },
  );

  const latents = TYPES.flatMap((type) => LATENT.map((shape) => ({ type, ...shape })));
  const fewLatents = latents.filter(({ type, heads }) => type === "f16" && (heads === 20 || heads === 3));
  it.for(subject.spread(latents, fewLatents))(
    "latent attention, $type cache: $heads heads, $latentWidth columns and $rotaryWidth rotated",
    async ({ type, ...shape }, { skip }) => {
      await expectCase(latentCase(shape, type, ROWS), STEPS, shape.heads * shape.latentWidth, skip);
    },
  );

  it.for(subject.spread(LATENT, LATENT.slice(0, 1)))(
    "latent attention over several splits: $heads heads, $latentWidth columns and $rotaryWidth rotated",
    async (shape, { skip }) => {
      await expectCase(latentCase(shape, "f16", LONG_ROWS), LONG_STEPS, shape.heads * shape.latentWidth, skip);
    },
  );

  // GPUs merge few splits where they attend, and more in a launch of its own.
  it.for(subject.spread([LATENT[2]], [LATENT[2]]))(
    "latent attention over many splits: $heads heads, $latentWidth columns and $rotaryWidth rotated",
    async (shape, { skip }) => {
      const wanted = { ...latentCase(shape, "f16", MANY_SPLIT_ROWS), blocks: MANY_SPLIT_ROWS / FORM_BLOCK_TOKENS };
      // What no step has stored is zero.
      const steps = [plainStep(20), plainStep(3, { first: 500 }), plainStep(2, { first: 700 })];
      await expectCase(wanted, steps, shape.heads * shape.latentWidth, skip);
    },
  );

  it.for(subject.spread(TYPES, ["f16"]))("layers of different shapes over %s", async (type, { skip }) => {
    const wanted = mixedLayersCase(type, ROWS);
    await expectCase(wanted, STEPS, wanted.width, skip);
  });
});

/** Whether keys are more than columns of the inputs. */
function computesKeys(wanted: ProgramCase): boolean {
  return programOf(wanted).operations.some(({ kind }) => kind === "rms-norm" || kind === "rope");
}

/** One backend for each subject that is only asked what it supports. */
const asked = new Map<Subject, Backend>();
afterAll(async () => {
  for (const backend of asked.values()) await backend[Symbol.asyncDispose]();
});

function skipUnsupported(subject: Subject, wanted: ProgramCase, skip: Skip): void {
  const backend = asked.get(subject) ?? subject.create();
  asked.set(subject, backend);
  const reason = unsupportedReason(backend, wanted);
  if (reason !== undefined) skip(reason);
}
