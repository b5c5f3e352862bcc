// Whole networks of experts against `reference`, from the norm over a router with weights to the sum with the residual: what
// backends compute as few launches for small batches. For those `reference` quantizes the inputs of quantized weights as the
// backends do, so that hardly anything is left to differ.

import { expect, it, type TestContext } from "vitest";
import type { StepInput } from "../../src/backends/contract.js";
import type { Activation, RouteExpertsOperation, ValueId } from "../../src/graph/operation.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import { isPlain } from "./experts-case.js";
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
import { FULL_RUN } from "../support/full-run.js";
import { describeSubjects } from "./subjects.js";

interface NetworkCase {
  readonly title: string;
  readonly type: SupportedTypeName;
  readonly downType?: SupportedTypeName;
  readonly routerType?: SupportedTypeName;
  readonly width: number;
  readonly expertWidth: number;
  readonly experts: number;
  readonly used: number;
  readonly activation?: Activation;
  readonly gating?: RouteExpertsOperation["gating"];
  readonly selectionBias?: boolean;
  readonly groups?: number;
  readonly renormalize?: boolean;
  readonly scale?: number;
  /** Gates and ups are one tensor. */
  readonly fused?: boolean;
  readonly biases?: SupportedTypeName;
  readonly scales?: boolean;
  /** The experts' input is weighed and not their result. */
  readonly weighsInput?: boolean;
  /** A dense network beside the experts; its result may have a gate of one column. */
  readonly shared?: "plain" | "gated";
  readonly sharedType?: SupportedTypeName;
  readonly sharedWidth?: number;
  readonly residual?: boolean;
  /** Another operation reads the norm's result too. */
  readonly normIsRead?: boolean;
  /** A layer after it begins with a norm and a matmul: GPUs norm in the launch that sums over slots. */
  readonly followed?: boolean;
  /** The norm is not the router's: the experts read rows as they are. */
  readonly unnormed?: boolean;
}

const SMALL = { width: 256, expertWidth: 256, experts: 8, used: 2 } as const;

const NETWORKS: readonly NetworkCase[] = [
  { ...SMALL, title: "as in Qwen3", type: "Q4_K", downType: "Q6_K", expertWidth: 768, experts: 32, used: 8 },
  {
    ...SMALL,
    title: "as in gpt-oss",
    type: "MXFP4",
    width: 288,
    expertWidth: 288,
    used: 4,
    activation: "swiglu-oai",
    gating: "softmax-selected",
    renormalize: false,
    biases: "F32",
  },
  {
    ...SMALL,
    title: "as in DeepSeek",
    type: "Q4_K",
    downType: "Q5_K",
    experts: 64,
    used: 6,
    gating: "sigmoid",
    selectionBias: true,
    groups: 8,
    scale: 2.5,
    shared: "plain",
    sharedType: "Q8_0",
  },
  {
    ...SMALL,
    title: "as in GLM",
    type: "Q4_K",
    experts: 16,
    used: 4,
    gating: "sigmoid",
    selectionBias: true,
    scale: 1.8,
    shared: "plain",
  },
  {
    ...SMALL,
    title: "before another layer",
    type: "Q4_K",
    experts: 16,
    used: 3,
    shared: "plain",
    followed: true,
  },
  { ...SMALL, title: "a shared expert of five bits", type: "Q5_K", expertWidth: 512, shared: "plain" },
  { ...SMALL, title: "as in Qwen2", type: "Q4_K", renormalize: false, shared: "gated" },
  { ...SMALL, title: "as in Qwen3.5", type: "Q4_K", downType: "Q6_K", used: 3, shared: "gated" },
  { ...SMALL, title: "a weighed shared expert that is too wide", type: "Q4_K", shared: "gated", sharedWidth: 2304 },
  { ...SMALL, title: "gates and ups in one tensor", type: "Q8_0", fused: true, activation: "gelu", width: 96 },
  { ...SMALL, title: "scales", type: "NVFP4", scales: true, gating: "sqrt-softplus", residual: false },
  {
    ...SMALL,
    title: "weighed inputs",
    type: "Q8_0",
    used: 1,
    weighsInput: true,
    gating: "sigmoid",
    renormalize: false,
  },
  { ...SMALL, title: "biases of BF16", type: "IQ4_XS", biases: "BF16", routerType: "BF16", width: 512 },
  { ...SMALL, title: "a quantized router", type: "Q5_K", downType: "Q3_K", routerType: "Q8_0" },
  { ...SMALL, title: "a router of F16", type: "Q2_K", downType: "Q4_0", routerType: "F16", shared: "plain" },
  { ...SMALL, title: "a norm that is read twice", type: "Q6_K", normIsRead: true, downType: "Q4_1" },
  { ...SMALL, title: "rows as they are", type: "Q4_K", downType: "IQ4_NL", unnormed: true },
  { ...SMALL, title: "a wide shared expert", type: "Q4_K", downType: "Q6_K", shared: "plain", sharedWidth: 512 },
  { ...SMALL, title: "an uneven shared expert", type: "MXFP4", width: 96, shared: "plain", sharedWidth: 288 },
  { ...SMALL, title: "a shared expert of plain floats", type: "Q8_0", sharedType: "F16", shared: "plain" },
  { ...SMALL, title: "plain floats", type: "F16", shared: "plain" },
  { ...SMALL, title: "gates of ReLU", type: "Q8_0", activation: "relu", shared: "plain" },
  { ...SMALL, title: "more experts than threads that choose", type: "Q8_0", width: 64, expertWidth: 64, experts: 160 },
];
const FEW = ["as in Qwen3", "as in Qwen3.5", "as in gpt-oss", "as in DeepSeek"];
const FEW_LARGE = ["as in GLM", "before another layer"];
/** Networks of more experts, of which a medium batch chooses most at most twice: GPUs sort their slots for dot products. */
const SPARSE = NETWORKS.filter(({ title }) =>
  [
    "as in Qwen3",
    "as in Qwen2",
    "as in gpt-oss",
    "as in GLM",
    "a shared expert of five bits",
    "gates and ups in one tensor",
    "scales",
    "weighed inputs",
    "biases of BF16",
  ].includes(title),
).map((network) => ({ ...network, experts: network.used === 1 ? network.experts : 64 }));
const FEW_SPARSE = ["as in gpt-oss", "as in GLM", "weighed inputs"];

const TOKENS = 33;
/** Steps that GPUs route and sort in one launch have 64 rows at most; other networks than FEW_LARGE take them in full runs. */
const MANY_TOKENS = [64, 70];
const VOCABULARY = Math.max(...MANY_TOKENS);
/** Rows that every backend gives back of a step. */
const MAX_OUTPUTS = 64;
/** Steps of 8 bits that fall between two numbers may be rounded either way. */
const SMALL_TOLERANCE = 5e-6;
/** Of networks without quantization against ones that quantize to 8 bits. */
const TOLERANCE = 2e-4;

function weightsOf(wanted: NetworkCase, dice: Dice): Readonly<Record<string, CaseWeight>> {
  const { type, downType = type, sharedType = type, width, expertWidth, experts } = wanted;
  const { sharedWidth = expertWidth } = wanted;
  const stack = (of: SupportedTypeName, inputs: number, rows: number): CaseWeight =>
    randomWeight(dice, of, [inputs, rows, experts], 1 / Math.sqrt(inputs));
  const matrix = (inputs: number, outputs: number): CaseWeight =>
    randomWeight(dice, sharedType, [inputs, outputs], 1 / Math.sqrt(inputs));
  const vectors = (name: string, rows: number): Record<string, CaseWeight> => ({
    ...(wanted.biases === undefined
      ? {}
      : { [`${name}.bias`]: randomWeight(dice, wanted.biases, [rows, experts], 0.3) }),
    ...(wanted.scales === true
      ? {
          [`${name}.scale`]: floats(
            [experts],
            Array.from({ length: experts }, () => dice.between(0.5, 1.5)),
          ),
        }
      : {}),
  });
  const gates: Readonly<Record<string, CaseWeight>> =
    wanted.fused === true
      ? { "both.weight": stack(type, width, 2 * expertWidth) }
      : {
          "gate.weight": stack(type, width, expertWidth),
          "up.weight": stack(type, width, expertWidth),
          ...vectors("gate", expertWidth),
          ...vectors("up", expertWidth),
        };
  return {
    inputs: inputTable(dice, width, VOCABULARY),
    "norm.weight": randomWeight(dice, "F32", [width]),
    "router.weight": randomWeight(dice, wanted.routerType ?? "F32", [width, experts], 2 / Math.sqrt(width)),
    ...(wanted.biases === undefined ? {} : { "router.bias": randomWeight(dice, "F32", [experts], 0.3) }),
    ...(wanted.selectionBias === true ? { selection: randomWeight(dice, "F32", [experts], 0.2) } : {}),
    ...gates,
    "down.weight": stack(downType, expertWidth, width),
    ...vectors("down", width),
    ...(wanted.shared === undefined
      ? {}
      : {
          "shared.gate.weight": matrix(width, sharedWidth),
          "shared.up.weight": matrix(width, sharedWidth),
          "shared.down.weight": matrix(sharedWidth, width),
        }),
    ...(wanted.followed === true
      ? {
          "next.norm.weight": randomWeight(dice, "F32", [width]),
          "next.weight": randomWeight(dice, "Q4_K", [width, width], 1 / Math.sqrt(width)),
        }
      : {}),
    ...(wanted.shared === "gated" ? { "shared.weigh.weight": randomWeight(dice, "F32", [width, 1], 1 / 16) } : {}),
  };
}

/** `quantizes`: whether the inputs of quantized weights are quantized by operations of their own. */
const networkCase = remembered(createNetworkCase);

function createNetworkCase(wanted: NetworkCase, quantizes: boolean): ProgramCase {
  const { type, downType = type, sharedType = type, routerType = "F32" } = wanted;
  const { width, expertWidth, experts, used, activation = "silu", gating = "softmax", renormalize = true } = wanted;
  const { groups, scale, weighsInput = false } = wanted;
  return {
    vocabularySize: VOCABULARY,
    weights: weightsOf(wanted, new Dice(width + expertWidth * 3 + experts)),
    build: (graph) => {
      const input = graph.embed("inputs", width, VOCABULARY);
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      const rows = wanted.unnormed === true ? input : normed;
      const inputOf = (of: SupportedTypeName, value: ValueId): ValueId =>
        quantizes && !isPlain(of) ? graph.quantizeActivations(value) : value;
      const logits = graph.matmul(inputOf(routerType, normed), "router", { inputs: width, outputs: experts });
      const bias = graph.optionalVector("selection", experts);
      const routing = graph.emit("routing", {
        kind: "route-experts",
        input: logits,
        ...(bias === undefined ? {} : { bias }),
        used,
        gating,
        ...(groups === undefined ? {} : { groups, groupsUsed: groups / 2 }),
        renormalize,
        ...(scale === undefined ? {} : { scale }),
      });
      const chosen = { matrices: experts, slots: used, routing } as const;
      const half = (name: string, firstOutput: number): ValueId =>
        graph.groupedMatmul(inputOf(type, rows), wanted.fused === true ? "both" : name, {
          ...chosen,
          inputs: width,
          rows: wanted.fused === true ? 2 * expertWidth : expertWidth,
          firstOutput: wanted.fused === true ? firstOutput : 0,
          outputs: expertWidth,
          weighted: weighsInput,
        });
      const gated = graph.glu(half("gate", 0), half("up", expertWidth), activation);
      const down = graph.groupedMatmul(inputOf(downType, gated), "down", {
        ...chosen,
        inputs: expertWidth,
        rows: width,
        inputStride: expertWidth,
        weighted: !weighsInput,
      });
      let result = graph.emit("experts", { kind: "sum-slots", input: down, slots: used });
      if (wanted.shared !== undefined) {
        const { sharedWidth = expertWidth } = wanted;
        const wide = { inputs: width, outputs: sharedWidth };
        const [gate, up] = ["shared.gate", "shared.up"].map((name) =>
          graph.matmul(inputOf(sharedType, rows), name, wide),
        );
        const shared = graph.matmul(inputOf(sharedType, graph.glu(gate, up, activation)), "shared.down", {
          inputs: sharedWidth,
          outputs: width,
        });
        const weigh = (): ValueId => graph.matmul(rows, "shared.weigh", { inputs: width, outputs: 1 });
        result = graph.add(result, wanted.shared === "gated" ? graph.glu(weigh(), shared, "sigmoid") : shared);
      }
      if (wanted.residual !== false) result = graph.add(input, result);
      if (wanted.normIsRead === true) result = graph.add(result, normed);
      if (wanted.followed === true) {
        const next = inputOf("Q4_K", graph.rmsNorm(result, "next.norm", 1e-5));
        result = graph.add(result, graph.matmul(next, "next", { inputs: width, outputs: width }));
      }
      return { hidden: graph.selectRows(result, "outputs") };
    },
  };
}

function lastRows(step: StepInput): StepInput {
  return { ...step, outputs: step.outputs.slice(-MAX_OUTPUTS) };
}

describeSubjects((subject) => {
  const networks = NETWORKS.filter(({ type, downType = type }) =>
    [type, downType].every((used) => subject.types.some(({ name }) => name === used)),
  );
  const few = networks.filter(({ title }) => FEW.includes(title));

  async function expectNetwork(wanted: NetworkCase, counts: readonly number[], quantizes: boolean): Promise<void> {
    await using backend = subject.create();
    const steps = counts.map((count) => lastRows(plainStep(count)));
    const expected = await referenceSteps(networkCase(wanted, quantizes), steps);
    const found = await runSteps(backend, networkCase(wanted, false), steps);
    for (const [index, count] of counts.entries()) {
      const error = normalisedError(hiddenOf(found[index], wanted.width), hiddenOf(expected[index], wanted.width));
      expect(error, `${count} tokens`).toBeLessThan(quantizes ? SMALL_TOLERANCE : TOLERANCE);
    }
  }

  async function skipUnsupported(wanted: NetworkCase, skip: TestContext["skip"]): Promise<void> {
    await using backend = subject.create();
    const reason = unsupportedReason(backend, networkCase(wanted, false));
    if (reason !== undefined) skip(reason);
  }

  it.for(subject.spread(networks, few))("$title, for few tokens", async (wanted, { skip }) => {
    await skipUnsupported(wanted, skip);
    await expectNetwork(wanted, subject.cases([1, 2, 5, 8], [1, 5]), true);
  });

  const sparse = SPARSE.filter(({ type }) => subject.types.some(({ name }) => name === type));
  const fewSparse = sparse.filter(({ title }) => FEW_SPARSE.includes(title));
  // Other backends compute them as they compute all others.
  const hasOwnForm = subject.promptsInHalves || FULL_RUN;
  it.for(subject.spread(hasOwnForm ? sparse : fewSparse, fewSparse))(
    "$title, for few slots an expert",
    async (wanted, { skip }) => {
      await skipUnsupported(wanted, skip);
      await expectNetwork(wanted, [9, 16], true);
    },
  );

  const fewLarge = networks.filter(({ title }) => FEW_LARGE.includes(title));
  it.for(subject.spread(networks, fewLarge))("$title, for many tokens", async (wanted, { skip }) => {
    await skipUnsupported(wanted, skip);
    const small = [12, TOKENS];
    const all = FULL_RUN || FEW_LARGE.includes(wanted.title) ? [...small, ...MANY_TOKENS] : small;
    await expectNetwork(wanted, subject.cases(all, small), false);
  });

  it.for(subject.spread(networks.slice(0, 4), few.slice(1, 3)))(
    "$title: bit-exact in every batch in deterministic mode",
    async (wanted, { skip }) => {
      await skipUnsupported(wanted, skip);
      await using backend = subject.create({ deterministic: true });
      const [all, ...others] = await runSteps(
        backend,
        networkCase(wanted, false),
        [TOKENS, 1, 3, 9].map((count) => plainStep(count)),
      );
      const whole = hiddenOf(all, wanted.width);
      for (const rows of others) {
        const part = hiddenOf(rows, wanted.width);
        expect(part).toEqual(whole.subarray(0, part.length));
      }
    },
  );
});
