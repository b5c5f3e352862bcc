// The conformance suite of `rocmforge verify`: for every operation, programs of it over types, widths and numbers of tokens,
// each with the tolerance that its arithmetic allows. A new operation does not compile until it has cases here.

import type { KvCacheType, StepInput } from "../backends/contract.js";
import type { OperationKind } from "../graph/operation.js";
import { layoutByName, SUPPORTED, type SupportedTypeName } from "../quant/layout.js";
import { createAttentionCase, type AttentionAttributes, type Heads } from "./attention-cases.js";
import { createLatentCase, createMixedLayersCase, createPreparedCase, FORM_BLOCK_TOKENS } from "./attention-forms.js";
import { createGroupedCase, createMixtureCase, isPlainType } from "./expert-cases.js";
import { createExactMatmulCase, createMatmulCase, type ExactMatmulShape } from "./matmul-cases.js";
import { plainStep, type ProgramCase } from "./program-case.js";
import {
  createConvCase,
  createDeltaNetCase,
  createPreviousRowCase,
  createScanCase,
  recurrentSteps,
  withoutStates,
} from "./recurrent-cases.js";
import * as rows from "./row-cases.js";

/** A program with its steps. */
export interface VerifyCase {
  readonly name: string;
  make(): ProgramCase;
  readonly steps: readonly StepInput[];
  /** The largest squared error over squared size of a row. */
  readonly tolerance: number;
  /** Whether it is about candidates and tokens: `reference` gives nothing to compare them with but the logits. */
  readonly outputs?: true;
}

/** What the suite reports together. */
export type FamilyKey = OperationKind | "feed-forward" | "outputs";

/** f32 arithmetic in another order, and faster functions of a device. */
const ROWS = 1e-9;
/** Matmuls of rounded inputs, which f16 may round again. */
const MATMUL = 4e-6;
/** Attention of prompts computes in f16. */
const ATTENTION = 1e-5;
/** Quantized activations between matmuls. */
const NETWORK = 2e-3;
const PLAIN_NETWORK = 1e-4;
/** As many output rows as every backend has. */
const MAX_OUTPUTS = 40;
/** Every type's blocks divide it. */
const TYPE_WIDTH = 768;

const TYPES: readonly SupportedTypeName[] = SUPPORTED.map(({ name }) => name);
const FEW_TYPES: readonly SupportedTypeName[] = ["F16", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"];
const KV_TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];
const ACTIVATIONS = ["silu", "gelu", "sigmoid", "swiglu-oai", "relu", "identity"] as const;
const GATINGS = ["softmax", "sigmoid", "softmax-selected", "sqrt-softplus", "sigmoid-selected"] as const;

/** One token, small batches whole and broken, a medium and a large one. */
const COUNTS = [1, 2, 5, 8, 9, 33];
const MORE_COUNTS = [...COUNTS, 3, 16, 40];
/** Prompts: several tiles, and as many tokens as a BLAS library computes. */
const PROMPTS = [130, 400];

/** Dots, and tiles of every size, of one matrix and of two. */
const EXACT: readonly ExactMatmulShape[] = [
  { inputs: 2048, outputs: 1 },
  { inputs: 96, outputs: 3, gated: true, bias: true },
  { inputs: 2048, outputs: 32 },
  { inputs: 2048, outputs: 32, gated: true },
  { inputs: 160, outputs: 33, offset: 3, bias: true },
  { inputs: 96, outputs: 35, gated: true, bias: true },
  { inputs: 2048, outputs: 256 },
];

/** The cases of each family; `full` has more sizes. */
const SUITE: { readonly [Key in FamilyKey]: (full: boolean) => readonly VerifyCase[] } = {
  embed: () =>
    TYPES.map((type) => ({
      name: type,
      make: () => rows.createEmbedCase(type, Math.max(64, layoutByName(type).blockElements * 2)),
      steps: steps([1, 12]),
      tolerance: 0,
    })),
  "rms-norm": (full) =>
    [
      [64, 64],
      [80, 80],
      [1024, 1024],
      [512, 64],
      ...(full
        ? [
            [4096, 4096],
            [8192, 128],
          ]
        : []),
    ].map(([width, group]) => ofRows(`${width} in groups of ${group}`, () => rows.createRmsNormCase(width, group))),
  "layer-norm": () => [64, 80, 1024].map((width) => ofRows(`${width}`, () => rows.createLayerNormCase(width))),
  scale: () => [false, true].map((byTensor) => ofRows(`${byTensor}`, () => rows.createScaleCase(96, byTensor))),
  "quantize-activations": () => [64, 1024].map((width) => ofRows(`${width}`, () => rows.createQuantizeCase(width))),
  matmul: (full) => [...TYPES.flatMap((type) => matmuls(type, full)), ...EXACT.map(exactMatmul)],
  "route-experts": () => [
    ...GATINGS.map((gating) => ofRows(gating, () => rows.createRouterCase(32, 6, gating))),
    { ...ofRows("8 of 256", () => rows.createRouterCase(256, 8, "softmax")), steps: steps([1, 40, 401]) },
  ],
  "grouped-matmul": (full) =>
    (full ? TYPES : FEW_TYPES).map((type) => ({
      name: type,
      make: () =>
        createGroupedCase({ type, inputs: TYPE_WIDTH, rows: 70, matrices: 6, slots: 2, choice: "any" }, MAX_OUTPUTS),
      steps: steps(COUNTS),
      tolerance: MATMUL,
    })),
  "sum-slots": (full) => [
    ...(full ? TYPES : FEW_TYPES).map((type) => ({
      name: `network of experts in ${type}`,
      make: () => createMixtureCase({ type, activation: "silu", experts: 8, used: 2 }, MAX_OUTPUTS),
      steps: steps(full ? [...COUNTS, ...PROMPTS] : [1, 5, 33]),
      tolerance: isPlainType(type) ? PLAIN_NETWORK : NETWORK,
    })),
    {
      name: "network of 4 of 16 experts, prompts",
      make: () => createMixtureCase({ type: "Q4_K", activation: "silu", experts: 16, used: 4 }, MAX_OUTPUTS),
      steps: steps(PROMPTS),
      tolerance: NETWORK,
    },
  ],
  rope: () =>
    (["adjacent", "halves"] as const).flatMap((style) =>
      [
        [64, 64],
        [128, 128],
        [80, 32],
      ].map(([width, rotary]) =>
        ofRows(`${rotary} of ${width}, ${style}`, () => rows.createRopeCase(width, rotary, style)),
      ),
    ),
  "concat-heads": () => [ofRows("4 heads", () => rows.createConcatCase(4, 32)), latent()],
  "head-columns": () => [ofRows("4 heads", () => rows.createHeadColumnsCase(4, 32))],
  "causal-conv": () =>
    [96, 130].map((width) => recurrent(`${width}`, () => createConvCase({ width, taps: 4, bias: true, silu: true }))),
  "delta-net": () =>
    (
      [
        [2, 4, 64, "cyclic"],
        [1, 2, 128, "grouped"],
      ] as const
    ).map(([keyHeads, valueHeads, headWidth, order]) =>
      recurrent(`heads of ${headWidth}`, () => createDeltaNetCase({ keyHeads, valueHeads, headWidth, order })),
    ),
  "ssm-scan": () => [
    recurrent("4 heads", () => createScanCase({ heads: 4, headWidth: 32, groups: 2, stateWidth: 64 })),
  ],
  "previous-row": () => [recurrent("with an input", () => createPreviousRowCase(96, true))],
  "state-write": () => [recurrent("a row", () => createPreviousRowCase(64, false))],
  "kv-write": () =>
    KV_TYPES.flatMap((type) => [
      attention(`${type}, heads of 64`, { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 }, type),
      prepared(type),
      mixedLayers(type),
    ]),
  attention: (full) => [
    ...[64, 128, ...(full ? [32, 80, 96, 256] : [])].map((width) =>
      attention(`heads of ${width}`, { heads: 4, kvHeads: 1, keyWidth: width, valueWidth: width }, "f16"),
    ),
    ...attributes(),
    wideLatent({}),
    ...(full ? [wideLatent({ window: 100, softCap: 5, sinks: [0.5, -1] })] : []),
  ],
  glu: () => ACTIVATIONS.map((activation) => ofRows(activation, () => rows.createGluCase(96, activation))),
  add: () => [ofRows("96", () => rows.createAddCase(96))],
  "select-rows": () => [
    { ...ofRows("some", () => rows.createAddCase(64)), steps: [spreadRows(40, 7), spreadRows(33, 2)] },
  ],
  "feed-forward": (full) =>
    (full ? TYPES : FEW_TYPES).map((type) => ({
      name: type,
      make: () => rows.createNetworkCase(type, TYPE_WIDTH, TYPE_WIDTH),
      steps: steps([...(full ? COUNTS : [1, 4, 9, 33]), ...PROMPTS]),
      tolerance: isPlainType(type) ? PLAIN_NETWORK : NETWORK,
    })),
  outputs: (full) =>
    [300, 1111, ...(full ? [4096] : [])].map((vocabulary) => ({
      name: `vocabulary of ${vocabulary}`,
      make: () => rows.createLogitsCase(vocabulary),
      steps: steps([1, 5]),
      tolerance: ROWS,
      outputs: true as const,
    })),
};

/** The families in the order of the report. */
export const FAMILY_KEYS = Object.keys(SUITE) as readonly FamilyKey[];

/** The cases of a family. */
export function casesOf(family: FamilyKey, full: boolean): readonly VerifyCase[] {
  return SUITE[family](full);
}

/** Steps of rows that depend on themselves alone; tokens are rows of a table of `MAX_OUTPUTS`. */
function steps(counts: readonly number[]): readonly StepInput[] {
  return counts.map((count) => {
    const step = spreadRows(count, Math.min(count, MAX_OUTPUTS));
    return { ...step, tokens: step.tokens.map((token) => token % MAX_OUTPUTS) };
  });
}

/** A step of `count` tokens with `outputs` output rows, spread over it. */
function spreadRows(count: number, outputs: number, first = 0): StepInput {
  const step = plainStep(count, { first });
  const groupOf = (row: number): number => Math.floor((row * outputs) / count);
  return { ...step, outputs: step.outputs.filter((_, row) => groupOf(row) !== groupOf(row + 1)) };
}

function ofRows(name: string, make: () => ProgramCase): VerifyCase {
  return { name, make, steps: steps([1, 7, 40]), tolerance: ROWS };
}

function matmuls(type: SupportedTypeName, full: boolean): readonly VerifyCase[] {
  const shapes = [
    { inputs: TYPE_WIDTH, outputs: 70, bias: true },
    ...(full
      ? [
          { inputs: 256, outputs: 3 },
          { inputs: 2048, outputs: 129, scale: true },
        ]
      : []),
  ];
  return shapes.map((shape) => ({
    name: `${type}, ${shape.inputs} × ${shape.outputs}`,
    make: () => createMatmulCase(type, shape, MAX_OUTPUTS),
    steps: steps(full ? [...MORE_COUNTS, ...PROMPTS] : COUNTS),
    tolerance: MATMUL,
  }));
}

/** Beside recurrent states F32 weights are multiplied as they are; in prompts by kernels of their own. */
function exactMatmul(shape: ExactMatmulShape): VerifyCase {
  const { inputs, outputs, gated = false } = shape;
  return {
    name: `F32 beside states, ${inputs} × ${outputs}${gated ? " twice" : ""}`,
    make: () => createExactMatmulCase(shape, MAX_OUTPUTS),
    steps: steps([9, ...PROMPTS]).map(withoutStates),
    tolerance: ROWS,
  };
}

/** A prompt, single tokens and a few; then long enough for several splits. */
const SEQUENCE: readonly StepInput[] = [
  spreadRows(40, 12),
  plainStep(1, { first: 40 }),
  plainStep(5, { first: 41 }),
  spreadRows(150, 12, 46),
  plainStep(1, { first: 196 }),
];
const SEQUENCE_TOKENS = 256;

function attention(name: string, heads: Heads, type: KvCacheType, form: AttentionAttributes = {}): VerifyCase {
  const cache = { type, blockTokens: FORM_BLOCK_TOKENS, blocks: SEQUENCE_TOKENS / FORM_BLOCK_TOKENS };
  return {
    name,
    make: () => createAttentionCase(heads, cache, SEQUENCE_TOKENS, form),
    steps: SEQUENCE,
    tolerance: ATTENTION,
  };
}

function attributes(): readonly VerifyCase[] {
  const heads = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
  const forms: Readonly<Record<string, AttentionAttributes>> = {
    "sliding window": { window: 21 },
    chunks: { chunk: 32 },
    "soft-cap": { softCap: 5 },
    sinks: { sinks: [0.5, -1, 2] },
    temperature: { temperature: 0.3, temperatureLength: 16 },
  };
  return Object.entries(forms).map(([name, form]) => attention(name, heads, "f16", form));
}

function prepared(type: KvCacheType): VerifyCase {
  const heads = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
  const preparation = { heads, norm: "before", rotation: { rotaryWidth: 64, style: "halves" } } as const;
  return {
    name: `${type}, with norms and RoPE`,
    make: () => createPreparedCase(preparation, type, SEQUENCE_TOKENS),
    steps: SEQUENCE,
    tolerance: ATTENTION,
  };
}

function latent(): VerifyCase {
  return {
    name: "latent attention",
    make: () => createLatentCase({ heads: 4, latentWidth: 64, rotaryWidth: 32 }, "f16", SEQUENCE_TOKENS),
    steps: SEQUENCE,
    tolerance: ATTENTION,
  };
}

/**
 * Heads of GLM and DeepSeek, over enough tiles of positions that blocks use every stage of their memory several times, and with
 * scores so far apart that the highest of a row is passed by much.
 */
function wideLatent(form: AttentionAttributes): VerifyCase {
  const [heads, tokens] = [{ heads: 2, kvHeads: 1, keyWidth: 576, valueWidth: 512 }, 512];
  const cache = { type: "f16", blockTokens: FORM_BLOCK_TOKENS, blocks: tokens / FORM_BLOCK_TOKENS } as const;
  return {
    name: `latent heads of 576 and 512${Object.keys(form).length > 0 ? " with attributes" : ""}`,
    make: () => createAttentionCase(heads, cache, tokens, { scale: 0.1, valuesInKeys: true, ...form }),
    steps: [spreadRows(90, 12), spreadRows(400, 40, 90), plainStep(1, { first: 490 })],
    tolerance: ATTENTION,
  };
}

function mixedLayers(type: KvCacheType): VerifyCase {
  return {
    name: `${type}, layers of different shapes`,
    make: () => createMixedLayersCase(type, SEQUENCE_TOKENS),
    steps: SEQUENCE,
    tolerance: ATTENTION,
  };
}

function recurrent(name: string, make: () => ProgramCase): VerifyCase {
  return { name, make, steps: recurrentSteps(), tolerance: ROWS };
}
