// Attributes of operations against `reference`: sliding windows, chunks, temperature, soft-caps and sinks of attention,
// values in keys, wide heads, gating, the scale of embeddings, the soft-cap of a matmul. A backend that has no kernel for an attribute yet skips with its own reason.

import { afterAll, describe, expect, it, type TestContext } from "vitest";
import type { Backend, KvCacheType, StepInput } from "../../src/backends/contract.js";
import type { Activation } from "../../src/graph/operation.js";
import { type KvShape, kvShapeOf } from "../../src/graph/program.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import {
  attentionCase,
  type AttentionAttributes,
  type CacheShape,
  expectAttention,
  type Heads,
} from "./attention-case.js";
import {
  type CaseWeight,
  floats,
  hiddenOf,
  inputTable,
  normalisedError,
  plainStep,
  type ProgramCase,
  randomWeight,
  runSteps,
  unsupportedReason,
} from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects, type Subject } from "./subjects.js";

type Skip = TestContext["skip"];

const BLOCK_TOKENS = 16;
const GROUPED: Heads = { heads: 6, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
const WIDE: Heads = { heads: 4, kvHeads: 2, keyWidth: 256, valueWidth: 256 };
const SINGLE: Heads = { heads: 4, kvHeads: 1, keyWidth: 256, valueWidth: 256 };
const UNEVEN: Heads = { heads: 4, kvHeads: 4, keyWidth: 96, valueWidth: 32 };
/** As in DeepSeek and GLM-4.7-Flash, and a small one. */
const LATENT: Heads = { heads: 20, kvHeads: 1, keyWidth: 576, valueWidth: 512 };
const SMALL_LATENT: Heads = { heads: 5, kvHeads: 1, keyWidth: 96, valueWidth: 64 };
const EXPANDED: Heads = { heads: 3, kvHeads: 3, keyWidth: 192, valueWidth: 128 };
const WIDEST: Heads = { heads: 8, kvHeads: 1, keyWidth: 512, valueWidth: 512 };
const TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** One position, a part of a block, a block, a block and one, several blocks, longer than every sequence of the case. */
const WINDOWS = [1, 5, BLOCK_TOKENS, BLOCK_TOKENS + 1, 40, 1000];

interface AttributeCase {
  readonly title: string;
  readonly heads: Heads;
  readonly attributes: AttentionAttributes;
  readonly rotated?: boolean;
}

const WINDOW_CASES: readonly AttributeCase[] = WINDOWS.map((window) => ({
  title: `a window of ${window}`,
  heads: GROUPED,
  attributes: { window },
}));

const OTHER_CASES: readonly AttributeCase[] = [
  { title: "a soft-cap", heads: GROUPED, attributes: { softCap: 2.5 } },
  { title: "sinks", heads: GROUPED, attributes: { sinks: [0.5, -3, 2, 40, -40, 1] } },
  { title: "heads of 256 with a window and a soft-cap", heads: WIDE, attributes: { window: 20, softCap: 3 } },
  { title: "one KV head of 256 with a window", heads: SINGLE, attributes: { window: 33 }, rotated: true },
  { title: "heads of 256 with a scale of its own", heads: WIDE, attributes: { scale: 0.11, softCap: 50 } },
  { title: "uneven heads with all attributes", heads: UNEVEN, attributes: { window: 9, softCap: 4, sinks: [1, -1] } },
  { title: "a window and sinks", heads: GROUPED, attributes: { window: 24, sinks: [3, 0, -2] }, rotated: true },
];

/** Chunks that end within a block, with one, after several, and after every sequence of the case. */
const CHUNKS = [3, BLOCK_TOKENS, 24, 1000];
const TEMPERATURE = { temperature: 0.3, temperatureLength: 8, temperatureOffset: 1 };

const CHUNK_CASES: readonly AttributeCase[] = CHUNKS.map((chunk) => ({
  title: `chunks of ${chunk}`,
  heads: GROUPED,
  attributes: { chunk },
}));

const LATENT_CASES: readonly AttributeCase[] = [
  { title: "values in keys", heads: SMALL_LATENT, attributes: { valuesInKeys: true } },
  { title: "values in keys of 576", heads: LATENT, attributes: { valuesInKeys: true, ...TEMPERATURE } },
  {
    title: "values in keys with a window, soft-cap and sinks",
    heads: SMALL_LATENT,
    attributes: { valuesInKeys: true, window: 19, softCap: 3, sinks: [1, -2] },
  },
];

const RECENT_CASES: readonly AttributeCase[] = [
  { title: "a temperature", heads: GROUPED, attributes: TEMPERATURE },
  { title: "chunks and a window", heads: GROUPED, attributes: { chunk: 20, window: 9, ...TEMPERATURE }, rotated: true },
  { title: "keys wider than values", heads: EXPANDED, attributes: {} },
  { title: "heads of 512", heads: WIDEST, attributes: { softCap: 5 } },
  { title: "groups of 7 heads", heads: { ...GROUPED, heads: 14 }, attributes: { window: 30 } },
  { title: "groups of 20 heads", heads: { ...GROUPED, heads: 40 }, attributes: {} },
];

/** Prefill, decode, a chunk shorter and a chunk longer than a block. */
const STEPS: readonly StepInput[] = [
  plainStep(23),
  plainStep(1, { first: 23 }),
  plainStep(9, { first: 24 }),
  plainStep(17, { first: 33 }),
  plainStep(1, { first: 50 }),
];

/** Decoding sequences beside prefill, after the sequences' beginnings have been computed. */
const MIXED_STEPS: readonly StepInput[] = [
  { ...plainStep(40), blockTables: [Int32Array.of(7, 3, 1)] },
  { ...plainStep(21), blockTables: [Int32Array.of(0, 4)] },
  {
    tokens: Int32Array.of(50, 51, ...Array.from({ length: 30 }, (_, index) => index), 52, 53, 54),
    positions: Int32Array.of(40, 21, ...Array.from({ length: 30 }, (_, index) => index), 41, 42, 43),
    sequenceOffsets: Int32Array.of(0, 1, 2, 32, 35),
    blockTables: [Int32Array.of(7, 3, 1), Int32Array.of(0, 4), Int32Array.of(5, 6), Int32Array.of(9, 10, 11)],
    outputs: Array.from({ length: 32 }, (_, row) => ({ row, want: { kind: "hidden" } })),
  },
];

const LONG_WINDOWS = [100, 300, 640];

describeSubjects((subject) => {
  async function expectCase(
    { heads, attributes, rotated = false }: AttributeCase,
    cache: Partial<CacheShape>,
    steps: readonly StepInput[],
    skip: Skip,
  ): Promise<void> {
    const shape = { type: "f16", blockTokens: BLOCK_TOKENS, blocks: 16, rotated, ...cache } as const;
    const rows = 1 + Math.max(...steps.flatMap(({ tokens }) => [...tokens]));
    const wanted = attentionCase(heads, shape, rows, attributes);
    skipUnsupported(subject, wanted, skip);
    await expectAttention(subject, wanted, steps, heads.heads * heads.valueWidth);
  }

  const forms = [...WINDOW_CASES, ...OTHER_CASES, ...CHUNK_CASES, ...LATENT_CASES, ...RECENT_CASES];
  const everyType = TYPES.flatMap((type) => forms.map((form) => ({ type, ...form })));
  // Chunks, latent attention and layers that differ have cases of their own for slow subjects in attention-forms.test.ts. Each
  // of these few is tried with one type of the cache, because every type is other kernels to compile.
  const fewForms = [WINDOW_CASES[3], OTHER_CASES[2], OTHER_CASES[6], RECENT_CASES[1]];
  const oneType = fewForms.map((form, index) => ({ type: TYPES[index % TYPES.length], ...form }));
  it.for(subject.spread(everyType, oneType))("attention over $type: $title", async ({ type, ...wanted }, { skip }) => {
    await expectCase(wanted, { type }, STEPS, skip);
  });

  it.for(subject.spread(forms, [WINDOW_CASES[1], OTHER_CASES[5]]))(
    "decoding beside prefill: $title",
    async (wanted, { skip }) => {
      await expectCase(wanted, {}, MIXED_STEPS, skip);
    },
  );

  it.for(subject.spread([1, 5, 32, 33], [5]))("a window over blocks of %i tokens", async (blockTokens, { skip }) => {
    const wanted = { title: "", heads: GROUPED, attributes: { window: 12, sinks: [1] } };
    const steps = [
      plainStep(31, { blockTokens }),
      plainStep(2, { first: 31, blockTokens }),
      plainStep(1, { first: 33, blockTokens }),
    ];
    await expectCase(wanted, { blockTokens, blocks: 50 }, steps, skip);
  });

  it.for(subject.spread(LONG_WINDOWS, [LONG_WINDOWS[0], LONG_WINDOWS[2]]))(
    "long sequences with a window of %i",
    async (window, { skip }) => {
      const heads = { heads: 2, kvHeads: 1, keyWidth: 16, valueWidth: 16 };
      const wanted = { title: "", heads, attributes: { window, softCap: 6, sinks: [1, -1] }, rotated: true };
      const steps = [
        plainStep(500, { blockTokens: 32 }),
        plainStep(150, { first: 500, blockTokens: 32 }),
        plainStep(1, { first: 650, blockTokens: 32 }),
        plainStep(5, { first: 651, blockTokens: 32 }),
      ].map((step) => ({ ...step, outputs: step.outputs.slice(-40) }));
      await expectCase(wanted, { blockTokens: 32, blocks: 24 }, steps, skip);
    },
  );

  describe.each(GATES)("gates with %s", (activation) => {
    it.for(subject.spread([7, 64, 1000], [7]))("columns of rows of %i", async (half, { skip }) => {
      await expectRows(
        subject,
        gatedColumns(activation, half, half),
        { width: half, counts: [1, 21], tolerance: 1e-11 },
        skip,
      );
    });

    it.for(subject.spread([7, 1000], [7]))("rows of %i by one column", async (width, { skip }) => {
      await expectRows(subject, gatedColumns(activation, 1, width), { width, counts: [1, 21], tolerance: 1e-11 }, skip);
    });
  });

  it.for(subject.spread<KvCacheType>(TYPES, []))(
    "layers of different shapes in a cache of %s",
    async (type, { skip }) => {
      const wanted = layersCase(type);
      skipUnsupported(subject, wanted, skip);
      await expectAttention(subject, wanted, STEPS, 64);
    },
  );

  const gated = GATED.filter(({ type }) => subject.types.some(({ name }) => name === type));
  it.for(subject.spread(gated, gated.slice(-1)))(
    "gates matmuls of $type with $activation, from a norm to a sum",
    async ({ type, activation, tolerance }, { skip }) => {
      await expectRows(subject, gatedCase(type, activation), { width: 256, counts: [1, 5, 33], tolerance }, skip);
    },
  );

  it.for(subject.spread<SupportedTypeName>(["F32", "F16", "Q8_0", "Q6_K", "Q4_K"], ["F16", "Q6_K"]))(
    "scales embeddings of %s",
    async (type, { skip }) => {
      const wanted: ProgramCase = {
        vocabularySize: 33,
        weights: { table: randomWeight(new Dice(5), type, [256, 33]) },
        build: (graph) => ({
          hidden: graph.selectRows(graph.embed("table", 256, 33, { scale: Math.fround(Math.sqrt(2304)) }), "outputs"),
        }),
      };
      await expectRows(subject, wanted, { width: 256, counts: [1, 33], tolerance: 1e-13 }, skip);
    },
  );

  it.for(subject.spread<SupportedTypeName>(["F32", "F16", "Q8_0", "Q6_K", "Q4_K", "Q5_0"], ["Q8_0", "Q4_K"]))(
    "embeds rows of a table of %s that stays in host memory",
    async (type, { skip }) => {
      const wanted: ProgramCase = {
        vocabularySize: 33,
        weights: {
          table: randomWeight(new Dice(6), "F32", [64, 33]),
          layers: randomWeight(new Dice(7), type, [512, 33]),
        },
        build: (graph) => {
          const left = graph.embed("table", 64, 33);
          const looked = graph.embed("layers", 512, 33, { scale: 1.5, onHost: true });
          const sum = graph.add(left, graph.columns(looked, "part", 448, 64));
          return { hidden: graph.selectRows(sum, "outputs") };
        },
      };
      // Steps of one size again and again are replayed from a captured graph.
      await expectRows(
        subject,
        wanted,
        { width: 64, counts: [1, 1, 1, 1, 33, 5, 1], tolerance: 1e-13 },
        skip,
        (count, index) => ({
          ...plainStep(count),
          tokens: Int32Array.from({ length: count }, (_, row) => (row * 7 + index * 5) % 30),
        }),
      );
    },
  );

  const matmuls = CAPPED.filter(({ type }) => subject.types.some(({ name }) => name === type));
  it.for(subject.spread(matmuls, matmuls.slice(0, 1)))(
    "soft-caps a matmul of $type, bias: $bias, scale: $scale, added: $added",
    async (wanted, { skip }) => {
      const judged = { width: CAPPED_OUTPUTS, counts: [1, 5, 33], tolerance: 1e-6 };
      await expectRows(subject, cappedCase(wanted), judged, skip);
    },
  );

  it("refuses a cache whose layers differ with a reason, or makes it", async () => {
    await using backend = subject.create();
    const shape = kvShapeOf([
      { kvHeads: 1, keyWidth: 64, valueWidth: 64 },
      { kvHeads: 4, keyWidth: 32, valueWidth: 64 },
    ]);
    const options = { ...shape, blocks: 4, blockTokens: 16, type: "f16" } as const;
    const support = backend.supportsKvCache(options);
    if (support === true) backend.createKvCache(options)[Symbol.dispose]();
    else expect(support.reason).toMatch(/layers/);
  });

  it("returns soft-capped logits and candidates", async ({ skip }) => {
    const wanted: ProgramCase = {
      vocabularySize: 64,
      weights: {
        inputs: inputTable(new Dice(11), 64, 64),
        "output.weight": randomWeight(new Dice(12), "F16", [64, 64], 1.5),
      },
      build: (graph) => {
        const hidden = graph.selectRows(graph.embed("inputs", 64, 64), "outputs");
        const scored = graph.selectRows(hidden, "scored");
        return { hidden, logits: graph.matmul(scored, "output", { inputs: 64, outputs: 64, softCap: 5 }) };
      },
    };
    skipUnsupported(subject, wanted, skip);
    await using backend = subject.create();
    const step: StepInput = {
      ...plainStep(3),
      outputs: [
        { row: 0, want: { kind: "logits" } },
        { row: 1, want: { kind: "hidden" } },
        { row: 2, want: { kind: "candidates", count: 8 } },
      ],
    };
    const [[expected, , expectedBest]] = await referenceSteps(wanted, [step]);
    const [[found, , foundBest]] = await runSteps(backend, wanted, [step]);
    if (expected.kind !== "logits" || found.kind !== "logits") throw new Error("logits were asked for");
    if (expectedBest.kind !== "candidates" || foundBest.kind !== "candidates")
      throw new Error("candidates were asked for");
    expect(normalisedError(found.logits, expected.logits)).toBeLessThan(1e-6);
    expect(Math.max(...found.logits.map(Math.abs))).toBeLessThanOrEqual(5);
    expect(found.logSum).toBeCloseTo(expected.logSum, 3);
    expect(foundBest.ids).toEqual(expectedBest.ids);
  });
});

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

interface Judged {
  readonly width: number;
  readonly counts: readonly number[];
  /** Of the squared error to the squared result. */
  readonly tolerance: number;
}

/** Steps of `counts` tokens; rows are compared with those of `reference`. */
async function expectRows(
  subject: Subject,
  wanted: ProgramCase,
  { width, counts, tolerance }: Judged,
  skip: Skip,
  stepOf: (count: number, index: number) => StepInput = (count) => plainStep(count),
): Promise<void> {
  skipUnsupported(subject, wanted, skip);
  await using backend = subject.create();
  const steps = counts.map(stepOf);
  const expected = await referenceSteps(wanted, steps);
  const found = await runSteps(backend, wanted, steps);
  for (const [index, count] of counts.entries()) {
    const error = normalisedError(hiddenOf(found[index], width), hiddenOf(expected[index], width));
    expect(error, `${count} tokens`).toBeLessThan(tolerance);
  }
}

const GATES: readonly Activation[] = ["gelu", "sigmoid", "swiglu-oai", "relu", "identity"];

/** A gate of `gateWidth` columns, then `width` columns that it gates; some are beyond the limits of every activation. */
function gatedColumns(activation: Activation, gateWidth: number, width: number): ProgramCase {
  const columns = gateWidth + width;
  return {
    vocabularySize: 21,
    weights: { inputs: inputTable(new Dice(columns), columns, 21, 3) },
    build: (graph) => {
      const input = graph.embed("inputs", columns, 21);
      const gate = graph.columns(input, "gate", 0, gateWidth);
      const up = graph.columns(input, "up", gateWidth, width);
      return { hidden: graph.selectRows(graph.glu(gate, up, activation), "outputs") };
    },
  };
}

/** Attention over three layers of a cache: two of other shapes, and one that has its values in its keys. */
function layersCase(type: KvCacheType): ProgramCase & { readonly kv: KvShape } {
  const shapes = [
    { kvHeads: 2, keyWidth: 64, valueWidth: 32 },
    { kvHeads: 1, keyWidth: 128, valueWidth: 0 },
    { kvHeads: 4, keyWidth: 32, valueWidth: 32 },
  ];
  const width = 512;
  return {
    vocabularySize: 64,
    kv: kvShapeOf(shapes),
    kvCacheType: type,
    blockTokens: BLOCK_TOKENS,
    blocks: 16,
    weights: { inputs: inputTable(new Dice(41), width, 64, 1.5) },
    build: (graph) => {
      const input = graph.embed("inputs", width, 64);
      const attended = shapes.map(({ kvHeads, keyWidth, valueWidth }, layer) => {
        const values = valueWidth === 0 ? undefined : graph.columns(input, "value", 384, kvHeads * valueWidth);
        const scale = 1 / Math.sqrt(keyWidth);
        const heads = { heads: 4, kvHeads, keyWidth, valueWidth: 16 * (valueWidth === 0 ? 2 : valueWidth / 16), scale };
        const query = graph.columns(input, "query", 0, 4 * keyWidth);
        const key = graph.columns(input, "key", 256, kvHeads * keyWidth);
        const latent = valueWidth === 0 ? { valuesInKeys: true } : {};
        return graph.columns(graph.attention(query, key, values, { layer, ...heads, ...latent }), "part", 32, 64);
      });
      return { hidden: graph.selectRows(graph.add(attended[0], graph.add(attended[1], attended[2])), "outputs") };
    },
  };
}

/** F16 weights leave the order of additions; backends quantize the inputs of Q8_0 weights before the second matmul too. */
const GATED: readonly {
  readonly type: SupportedTypeName;
  readonly activation: Activation;
  readonly tolerance: number;
}[] = [
  { type: "F16", activation: "gelu", tolerance: 1e-6 },
  { type: "Q8_0", activation: "gelu", tolerance: 1e-4 },
  { type: "F16", activation: "relu", tolerance: 1e-6 },
  { type: "F16", activation: "identity", tolerance: 1e-6 },
  { type: "Q4_K", activation: "gelu", tolerance: 1e-4 },
];

const gatedCase = remembered(createGatedCase);

function createGatedCase(type: SupportedTypeName, activation: Activation): ProgramCase {
  const dice = new Dice(9);
  const matrix = (inputs: number, outputs: number): CaseWeight =>
    randomWeight(dice, type, [inputs, outputs], 1 / Math.sqrt(inputs));
  return {
    vocabularySize: 33,
    weights: {
      inputs: inputTable(dice, 256, 33),
      "norm.weight": randomWeight(dice, "F32", [256]),
      "gate.weight": matrix(256, 512),
      "up.weight": matrix(256, 512),
      "down.weight": matrix(512, 256),
    },
    build: (graph) => {
      const input = graph.embed("inputs", 256, 33);
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      const gate = graph.matmul(normed, "gate", { inputs: 256, outputs: 512 });
      const up = graph.matmul(normed, "up", { inputs: 256, outputs: 512 });
      const down = graph.matmul(graph.glu(gate, up, activation), "down", { inputs: 512, outputs: 256 });
      return { hidden: graph.selectRows(graph.add(input, down), "outputs") };
    },
  };
}

interface CappedMatmul {
  readonly type: SupportedTypeName;
  readonly bias: boolean;
  readonly scale: boolean;
  /** A residual is added after the soft-cap. */
  readonly added: boolean;
}

const CAPPED_INPUTS = 512;
const CAPPED_OUTPUTS = 131;
const CAPPED: readonly CappedMatmul[] = [
  { type: "F16", bias: true, scale: false, added: false },
  { type: "Q6_K", bias: false, scale: false, added: false },
  { type: "Q8_0", bias: true, scale: true, added: true },
  { type: "F32", bias: false, scale: true, added: false },
  { type: "BF16", bias: false, scale: false, added: true },
  { type: "Q4_K", bias: true, scale: false, added: false },
];

const cappedCase = remembered(createCappedCase);

function createCappedCase({ type, bias, scale, added }: CappedMatmul): ProgramCase {
  const dice = new Dice(77);
  const isPlain = type === "F32" || type === "F16" || type === "BF16";
  return {
    vocabularySize: 33,
    weights: {
      inputs: inputTable(dice, CAPPED_INPUTS, 33, 3),
      "matmul.weight": randomWeight(dice, type, [CAPPED_INPUTS, CAPPED_OUTPUTS], 1 / Math.sqrt(CAPPED_INPUTS)),
      ...(bias ? { "matmul.bias": inputTable(dice, CAPPED_OUTPUTS, 1) } : {}),
      ...(scale ? { "matmul.scale": floats([1], [0.37]) } : {}),
    },
    build: (graph) => {
      const table = graph.embed("inputs", CAPPED_INPUTS, 33);
      const input = isPlain ? table : graph.quantizeActivations(table);
      const capped = graph.matmul(input, "matmul", { inputs: CAPPED_INPUTS, outputs: CAPPED_OUTPUTS, softCap: 1.5 });
      const residual = graph.columns(table, "residual", 0, CAPPED_OUTPUTS);
      return { hidden: graph.selectRows(added ? graph.add(capped, residual) : capped, "outputs") };
    },
  };
}
