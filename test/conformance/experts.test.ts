// The operations of mixtures of experts against `reference`: the router, grouped matmuls and their sum, alone and as the
// feed-forward network that they form. A backend that has no kernel for one of them yet skips with its own reason.

import { describe, expect, it } from "vitest";
import type { RouteExpertsOperation, UnplacedOperation } from "../../src/graph/operation.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import {
  type ComparedStep,
  type GroupedCase,
  groupedCase,
  isPlain,
  MIXTURE_WIDTH,
  type MixtureCase,
  mixtureCase,
  routedTable,
  runBoth,
} from "./experts-case.js";
import { floats, hiddenOf, inputTable, normalisedError, type ProgramCase, randomWeight } from "./harness.js";
import { describeSubjects } from "./subjects.js";

type Routing = Omit<UnplacedOperation<"route-experts">, "kind" | "input" | "bias">;

/** Of f32 arithmetic in another order. */
const ROWS_TOLERANCE = 1e-11;
const MATMUL_TOLERANCE = 1e-6;
/** Of a network whose matmuls quantize their own inputs: about 1e-4 by itself, for steps of 1/127 of a block's largest value. */
const NETWORK_TOLERANCE = 3e-4;
/** One token, few of them, a panel with a rest, and enough that every expert has many. */
const TOKEN_COUNTS = [1, 2, 5, 9, 33, 200];
const ROUTED_TOKENS = 33;

const GATINGS: readonly RouteExpertsOperation["gating"][] = [
  "softmax",
  "sigmoid",
  "softmax-selected",
  "sqrt-softplus",
  "sigmoid-selected",
];

interface RouterCase extends Routing {
  readonly experts: number;
  readonly bias?: boolean;
}

const ROUTERS: readonly Omit<RouterCase, "gating">[] = [
  { experts: 8, used: 2, renormalize: false },
  { experts: 128, used: 8, renormalize: true },
  { experts: 3, used: 3, renormalize: true, scale: 2.5 },
  { experts: 1, used: 1, renormalize: false },
  { experts: 256, used: 8, renormalize: true, scale: 2.5, groups: 8, groupsUsed: 4, bias: true },
  { experts: 160, used: 6, renormalize: false, scale: 16, groups: 8, groupsUsed: 3 },
  { experts: 12, used: 2, renormalize: false, groups: 12, groupsUsed: 5 },
  { experts: 37, used: 5, renormalize: false, bias: true },
  { experts: 512, used: 22, renormalize: true, bias: true },
];

function routerCase({ experts, bias = false, ...routing }: RouterCase, logits: () => readonly number[]): ProgramCase {
  const dice = new Dice(experts);
  const table = routedTable(dice, ROUTED_TOKENS, 0, logits);
  return {
    vocabularySize: ROUTED_TOKENS,
    weights: { inputs: table, ...(bias ? { bias: randomWeight(dice, "F32", [experts], 0.2) } : {}) },
    build: (graph) => {
      const weight = graph.optionalVector("bias", experts);
      const routed = graph.emit("routing", {
        kind: "route-experts",
        input: graph.embed("inputs", experts, ROUTED_TOKENS),
        ...(weight === undefined ? {} : { bias: weight }),
        ...routing,
      });
      return { hidden: graph.selectRows(routed, "outputs") };
    },
  };
}

/** The same experts in the same order, and weights that agree. */
function expectRouting(steps: readonly ComparedStep[], used: number): void {
  for (const { count, expected, found } of steps) {
    const parts = (rows: ComparedStep["expected"], first: number): Float32Array => {
      const all = hiddenOf(rows, 2 * used);
      return all.filter((_, index) => Math.floor(index / used) % 2 === first);
    };
    expect(parts(found, 0), `experts of ${count} tokens`).toEqual(parts(expected, 0));
    expect(normalisedError(parts(found, 1), parts(expected, 1)), `weights of ${count} tokens`).toBeLessThan(
      ROWS_TOLERANCE,
    );
  }
}

const ROUTED: GroupedCase = { type: "Q4_K", inputs: 512, rows: 70, matrices: 8, slots: 3, choice: "any" };
const HEADS: GroupedCase = { type: "F16", inputs: 64, rows: 48, matrices: 4, slots: 4 };

const GROUPED: readonly (GroupedCase & { readonly title: string })[] = [
  { ...ROUTED, title: "all of them the same experts", choice: "same" },
  { ...ROUTED, title: "only every second expert", choice: "half" },
  { ...ROUTED, title: "one expert of many", matrices: 40, slots: 1 },
  { ...ROUTED, title: "every expert", matrices: 3, slots: 3 },
  { ...ROUTED, title: "biases, scales and weights", bias: true, scale: true, weighted: true },
  { ...ROUTED, title: "weights alone", weighted: true },
  { ...ROUTED, title: "the second half of each matrix", rows: 140, firstOutput: 70, outputs: 70, bias: true },
  { ...ROUTED, title: "some rows of each matrix", rows: 99, firstOutput: 17, outputs: 41 },
  { ...ROUTED, title: "an input for each slot", type: "Q6_K", inputStride: 512, weighted: true },
  { ...ROUTED, title: "an input for each slot, with columns between", inputs: 256, inputStride: 320, bias: true },
  { ...ROUTED, title: "one row of each matrix", rows: 1 },
  { ...ROUTED, title: "plain floats", type: "F32", inputs: 100, weighted: true, bias: true },
  { ...ROUTED, title: "plain floats of odd widths", type: "BF16", inputs: 37, rows: 19, inputStride: 41 },
  { ...HEADS, title: "heads of one input" },
  { ...HEADS, title: "heads with inputs of their own", inputStride: 64 },
  { ...HEADS, title: "heads with columns between", inputStride: 96, bias: true },
  { ...HEADS, title: "heads in one matrix", flat: true, firstOutput: 16, outputs: 32 },
  { ...HEADS, title: "quantized heads", type: "Q8_0", inputStride: 96, scale: true },
  {
    ...HEADS,
    title: "many quantized heads",
    type: "Q8_0",
    inputs: 128,
    rows: 512,
    matrices: 20,
    slots: 20,
    inputStride: 192,
  },
];

const MIXTURES: readonly (MixtureCase & { readonly title: string })[] = [
  { title: "Q4_K with SiLU", type: "Q4_K", activation: "silu", experts: 16, used: 4 },
  { title: "F16 with SiLU", type: "F16", activation: "silu", experts: 6, used: 2 },
  { title: "Q4_K and Q6_K", type: "Q4_K", downType: "Q6_K", activation: "silu", experts: 8, used: 2, shared: true },
  { title: "MXFP4 as in gpt-oss", type: "MXFP4", activation: "swiglu-oai", experts: 8, used: 4, biases: true },
  { title: "gates and ups in one tensor", type: "Q8_0", activation: "gelu", experts: 8, used: 3, fused: true },
  { title: "scales", type: "NVFP4", activation: "silu", experts: 5, used: 2, scales: true },
  { title: "weighed inputs", type: "Q8_0", activation: "silu", experts: 4, used: 1, weighsInput: true, shared: true },
  { title: "one expert for all tokens", type: "Q4_K", activation: "silu", experts: 32, used: 1, choice: "same" },
];

describeSubjects((subject) => {
  describe.each(subject.cases(GATINGS, GATINGS))("router with %s", (gating) => {
    it.for(subject.spread(ROUTERS, [ROUTERS[1], ROUTERS[4]]))(
      "$used of $experts experts, groups: $groups, bias: $bias, renormalized: $renormalize",
      async (router, { skip }) => {
        const dice = new Dice(router.experts + 1);
        const logits = (): number[] => Array.from({ length: router.experts }, () => dice.bell() * 2);
        const wanted = routerCase({ ...router, gating }, logits);
        expectRouting(await runBoth(subject, wanted, [1, ROUTED_TOKENS], skip), router.used);
      },
    );
  });

  it.for(subject.spread(GATINGS, GATINGS.slice(0, 2)))(
    "router with %s chooses the first of equal experts",
    async (gating, { skip }) => {
      const dice = new Dice(5);
      const logits = (): number[] => Array.from({ length: 32 }, () => dice.below(3) / 2);
      const wanted = routerCase({ experts: 32, used: 6, gating, renormalize: true }, logits);
      expectRouting(await runBoth(subject, wanted, [1, ROUTED_TOKENS], skip), 6);
      const grouped = { experts: 32, used: 6, gating, renormalize: false, groups: 8, groupsUsed: 4 };
      expectRouting(await runBoth(subject, routerCase(grouped, logits), [ROUTED_TOKENS], skip), 6);
    },
  );

  it("router divides by no sum that is hardly anything", async ({ skip }) => {
    const logits = [-40, -30, -35, -50];
    const wanted = routerCase({ experts: 4, used: 2, gating: "sigmoid", renormalize: true }, () => logits);
    expectRouting(await runBoth(subject, wanted, [1, 5], skip), 2);
  });

  const types = subject.types.map(({ name, blockElements }) => ({ name, inputs: Math.max(96, blockElements * 2) }));
  const few = types.filter(({ name }) => name === "Q4_K" || name === "MXFP4");
  it.for(subject.spread(types, few))("grouped matmuls of $name", async ({ name, inputs }, { skip }) => {
    const wanted = { ...ROUTED, type: name, inputs, weighted: true };
    const counts = subject.cases(TOKEN_COUNTS, [1, 33]);
    expectGrouped(await runBoth(subject, groupedCase(wanted, Math.max(...counts)), counts, skip), wanted);
  });

  const grouped = GROUPED.filter(({ type }) => subject.types.some(({ name }) => name === type));
  const fewGrouped = grouped.filter(({ title }) =>
    /biases, scales|plain floats|same experts|heads with columns/.test(title),
  );
  it.for(subject.spread(grouped, fewGrouped))("grouped matmuls: $title", async (wanted, { skip }) => {
    const counts = subject.cases(TOKEN_COUNTS, [1, 33]);
    expectGrouped(await runBoth(subject, groupedCase(wanted, Math.max(...counts)), counts, skip), wanted);
  });

  it.for(subject.spread([1, 3, 8], [3]))("adds up %i slots", async (slots, { skip }) => {
    const width = 51;
    const wanted: ProgramCase = {
      vocabularySize: ROUTED_TOKENS,
      weights: { inputs: inputTable(new Dice(slots), slots * width, ROUTED_TOKENS) },
      build: (graph) => {
        const input = graph.embed("inputs", slots * width, ROUTED_TOKENS);
        return { hidden: graph.selectRows(graph.emit("sum", { kind: "sum-slots", input, slots }), "outputs") };
      },
    };
    for (const { count, expected, found } of await runBoth(subject, wanted, [1, ROUTED_TOKENS], skip)) {
      const error = normalisedError(hiddenOf(found, width), hiddenOf(expected, width));
      expect(error, `${count} tokens`).toBeLessThan(ROWS_TOLERANCE);
    }
  });

  const mixtures = MIXTURES.filter(({ type }) => subject.types.some(({ name }) => name === type));
  it.for(subject.spread(mixtures, [mixtures[0], mixtures[3]]))(
    "network of experts: $title",
    async (wanted, { skip }) => {
      const counts = subject.cases(TOKEN_COUNTS, [1, 33]);
      const steps = await runBoth(subject, mixtureCase(wanted, Math.max(...counts)), counts, skip);
      for (const { count, expected, found } of steps) {
        const error = normalisedError(hiddenOf(found, MIXTURE_WIDTH), hiddenOf(expected, MIXTURE_WIDTH));
        expect(error, `${count} tokens`).toBeLessThan(isPlain(wanted.type) ? MATMUL_TOLERANCE : NETWORK_TOLERANCE);
      }
    },
  );

  it.for(subject.spread<SupportedTypeName>(["Q4_K", "F16"], ["Q4_K"]))(
    "a token that is not finite chooses experts of %s beside others",
    async (type, { skip }) => {
      const broken = overflowingCase({ ...ROUTED, type, weighted: true }, 3);
      for (const { count, expected, found } of await runBoth(subject, broken, [5, ROUTED_TOKENS], skip)) {
        expect(found[3].kind, `${count} tokens`).toBe("not-finite");
        const others = (rows: ComparedStep["found"]): Float32Array =>
          hiddenOf(
            rows.filter((_, row) => row !== 3),
            210,
          );
        expect(normalisedError(others(found), others(expected)), `${count} tokens`).toBeLessThan(MATMUL_TOLERANCE);
      }
    },
  );
});

function expectGrouped(steps: readonly ComparedStep[], { slots, rows, outputs = rows }: GroupedCase): void {
  for (const { count, expected, found } of steps) {
    const width = slots * outputs;
    const error = normalisedError(hiddenOf(found, width), hiddenOf(expected, width));
    expect(error, `${count} tokens`).toBeLessThan(MATMUL_TOLERANCE);
  }
}

/** Logits are doubled, which makes those of one row infinite and its probabilities NaN. */
function overflowingCase(grouped: GroupedCase, row: number): ProgramCase {
  const { inputs, rows, matrices, slots, weighted = false } = grouped;
  const wanted = groupedCase(grouped, ROUTED_TOKENS);
  const { shape, data } = wanted.weights["inputs"];
  const values = new Float32Array(data.slice().buffer);
  values.fill(3e38, row * shape[0] + inputs, (row + 1) * shape[0]);
  return {
    ...wanted,
    weights: { ...wanted.weights, inputs: floats(shape, values) },
    build: (graph) => {
      const all = graph.embed("inputs", shape[0], ROUTED_TOKENS);
      const logits = graph.columns(all, "logits", inputs, matrices);
      const doubled = graph.add(logits, logits);
      const gating = { used: slots, gating: "softmax", renormalize: true } as const;
      const routing = graph.emit("routing", { kind: "route-experts", input: doubled, ...gating });
      const input = graph.quantizeActivations(graph.columns(all, "input", 0, inputs));
      const out = graph.groupedMatmul(input, "experts", { inputs, rows, matrices, slots, routing, weighted });
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}
