// Mixtures of experts as cases: a token's input and the logits of its experts are columns of its row, so that a case decides
// which experts are chosen.

import type { GraphBuilder } from "../graph/builder.js";
import type { Activation, ValueId } from "../graph/operation.js";
import type { SupportedTypeName } from "../quant/layout.js";
import { Dice, drawFloats } from "./dice.js";
import { type CaseWeight, floats, type ProgramCase, randomWeight } from "./program-case.js";

/** Which experts the tokens of a case choose: any, all of them the same, or only every second expert. */
export type ExpertChoice = "any" | "same" | "half";

/** One matmul with matrices of a stack. */
export interface GroupedCase {
  readonly type: SupportedTypeName;
  readonly inputs: number;
  readonly rows: number;
  readonly matrices: number;
  readonly slots: number;
  /** Absent: without a router, each slot has the matrix of its own number. */
  readonly choice?: ExpertChoice;
  readonly inputStride?: number;
  readonly firstOutput?: number;
  readonly outputs?: number;
  readonly weighted?: boolean;
  readonly bias?: boolean;
  readonly scale?: boolean;
  readonly flat?: boolean;
}

const PLAIN: readonly SupportedTypeName[] = ["F32", "F16", "BF16"];

/** Whether weights are not quantized. */
export function isPlainType(type: SupportedTypeName): boolean {
  return PLAIN.includes(type);
}

/** The logits that choose a token's experts: far enough apart that no rounding changes the order. */
export function expertLogits(dice: Dice, experts: number, used: number, choice: ExpertChoice): readonly number[] {
  const order = Array.from({ length: experts }, (_, expert) => expert);
  if (choice !== "same") for (const expert of order) swap(order, expert, dice.below(experts));
  if (choice === "half") order.sort((left, right) => (left % 2) - (right % 2));
  const logits = Array.from({ length: experts }, () => 0);
  for (const [rank, expert] of order.entries()) logits[expert] = 1 - rank * (rank < used ? 0.25 : 0.3);
  return logits;
}

function swap(list: number[], left: number, right: number): void {
  [list[left], list[right]] = [list[right], list[left]];
}

/** A table of `tokens` rows: columns of a bell curve, then the logits of experts. */
export function routedTable(dice: Dice, tokens: number, width: number, logits: () => readonly number[]): CaseWeight {
  const rows = Array.from({ length: tokens }, () => [...drawFloats(width, () => dice.bell()), ...logits()]);
  return floats([rows[0].length, tokens], rows.flat());
}

/** Chooses experts by their logits. */
export function routeByLogits(graph: GraphBuilder, logits: ValueId, used: number): ValueId {
  return graph.emit("routing", {
    kind: "route-experts",
    input: logits,
    used,
    gating: "softmax-selected",
    renormalize: false,
  });
}

/** One grouped matmul on inputs that are quantized already. */
export function createGroupedCase(wanted: GroupedCase, tokens: number): ProgramCase {
  const { type, inputs, rows, matrices, slots, choice, inputStride = 0, flat = false } = wanted;
  const dice = new Dice(inputs * 7 + rows * 3 + matrices);
  const width = inputStride === 0 ? inputs : slots * inputStride;
  const size = 1 / Math.sqrt(inputs);
  const logits = (): readonly number[] => (choice === undefined ? [] : expertLogits(dice, matrices, slots, choice));
  const table = routedTable(dice, tokens, width, logits);
  return {
    vocabularySize: tokens,
    weights: {
      inputs: table,
      "experts.weight": randomWeight(dice, type, flat ? [inputs, rows * matrices] : [inputs, rows, matrices], size),
      ...(wanted.bias === true ? { "experts.bias": randomWeight(dice, "F32", [rows, matrices]) } : {}),
      ...(wanted.scale === true
        ? {
            "experts.scale": floats(
              [matrices],
              Array.from({ length: matrices }, () => dice.between(0.3, 2)),
            ),
          }
        : {}),
    },
    build: (graph) => {
      const all = graph.embed("inputs", table.shape[0], tokens);
      const plain = graph.columns(all, "input", 0, width);
      const routing =
        choice === undefined
          ? {}
          : { routing: routeByLogits(graph, graph.columns(all, "logits", width, matrices), slots) };
      const out = graph.groupedMatmul(isPlainType(type) ? plain : graph.quantizeActivations(plain), "experts", {
        inputs,
        rows,
        matrices,
        slots,
        ...routing,
        inputStride,
        firstOutput: wanted.firstOutput ?? 0,
        outputs: wanted.outputs ?? rows,
        weighted: wanted.weighted ?? false,
        flat,
      });
      return { hidden: graph.selectRows(out, "outputs") };
    },
  };
}

/** A network of experts. */
export interface MixtureCase {
  readonly type: SupportedTypeName;
  readonly downType?: SupportedTypeName;
  readonly activation: Activation;
  readonly experts: number;
  readonly used: number;
  readonly choice?: ExpertChoice;
  /** Gates and ups are one tensor. */
  readonly fused?: boolean;
  readonly biases?: boolean;
  readonly scales?: boolean;
  /** The experts' input is weighed and not their result. */
  readonly weighsInput?: boolean;
  /** A shared expert, with a gate of its own. */
  readonly shared?: boolean;
}

/** Columns of the mixture's input and of an expert. */
export const MIXTURE_WIDTH = 256;
const EXPERT_WIDTH = 512;

/** A feed-forward network of experts, from the norm to the sum with the residual. */
export function createMixtureCase(wanted: MixtureCase, tokens: number): ProgramCase {
  const { type, downType = type, activation, experts, used, choice = "any", weighsInput = false } = wanted;
  const dice = new Dice(experts * 31 + used);
  const table = routedTable(dice, tokens, MIXTURE_WIDTH, () => expertLogits(dice, experts, used, choice));
  const stack = (kind: SupportedTypeName, inputs: number, rows: number): CaseWeight =>
    randomWeight(dice, kind, [inputs, rows, experts], 1 / Math.sqrt(inputs));
  const matrix = (inputs: number, outputs: number): CaseWeight =>
    randomWeight(dice, type, [inputs, outputs], 1 / Math.sqrt(inputs));
  const bias = (rows: number): CaseWeight => randomWeight(dice, "F32", [rows, experts], 0.3);
  const scales = (): CaseWeight =>
    floats(
      [experts],
      Array.from({ length: experts }, () => dice.between(0.5, 1.5)),
    );
  return {
    vocabularySize: tokens,
    weights: {
      inputs: table,
      "norm.weight": randomWeight(dice, "F32", [MIXTURE_WIDTH]),
      ...(wanted.fused === true
        ? { "both.weight": stack(type, MIXTURE_WIDTH, 2 * EXPERT_WIDTH) }
        : {
            "gate.weight": stack(type, MIXTURE_WIDTH, EXPERT_WIDTH),
            "up.weight": stack(type, MIXTURE_WIDTH, EXPERT_WIDTH),
          }),
      "down.weight": stack(downType, EXPERT_WIDTH, MIXTURE_WIDTH),
      ...(wanted.biases === true
        ? { "gate.bias": bias(EXPERT_WIDTH), "up.bias": bias(EXPERT_WIDTH), "down.bias": bias(MIXTURE_WIDTH) }
        : {}),
      ...(wanted.scales === true ? { "gate.scale": scales(), "up.scale": scales(), "down.scale": scales() } : {}),
      ...(wanted.shared === true
        ? {
            "shared.gate.weight": matrix(MIXTURE_WIDTH, EXPERT_WIDTH),
            "shared.up.weight": matrix(MIXTURE_WIDTH, EXPERT_WIDTH),
            "shared.down.weight": matrix(EXPERT_WIDTH, MIXTURE_WIDTH),
            "shared.weigh.weight": randomWeight(dice, "F32", [MIXTURE_WIDTH, 1], 1 / 16),
          }
        : {}),
    },
    build: (graph) => {
      const all = graph.embed("inputs", table.shape[0], tokens);
      const input = graph.columns(all, "input", 0, MIXTURE_WIDTH);
      const routing = routeByLogits(graph, graph.columns(all, "logits", MIXTURE_WIDTH, experts), used);
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      const chosen = { matrices: experts, slots: used, routing } as const;
      const half = (name: string, firstOutput: number): ValueId =>
        graph.groupedMatmul(normed, wanted.fused === true ? "both" : name, {
          ...chosen,
          inputs: MIXTURE_WIDTH,
          rows: wanted.fused === true ? 2 * EXPERT_WIDTH : EXPERT_WIDTH,
          firstOutput: wanted.fused === true ? firstOutput : 0,
          outputs: EXPERT_WIDTH,
          weighted: weighsInput,
        });
      const gated = graph.glu(half("gate", 0), half("up", EXPERT_WIDTH), activation);
      const down = graph.groupedMatmul(gated, "down", {
        ...chosen,
        inputs: EXPERT_WIDTH,
        rows: MIXTURE_WIDTH,
        inputStride: EXPERT_WIDTH,
        weighted: !weighsInput,
      });
      const sum = graph.emit("experts", { kind: "sum-slots", input: down, slots: used });
      const result = wanted.shared === true ? graph.add(sum, sharedExpert(graph, normed, activation)) : sum;
      return { hidden: graph.selectRows(graph.add(input, result), "outputs") };
    },
  };
}

function sharedExpert(graph: GraphBuilder, input: ValueId, activation: Activation): ValueId {
  const wide = { inputs: MIXTURE_WIDTH, outputs: EXPERT_WIDTH };
  const gate = graph.matmul(input, "shared.gate", wide);
  const up = graph.matmul(input, "shared.up", wide);
  const down = { inputs: EXPERT_WIDTH, outputs: MIXTURE_WIDTH };
  const result = graph.matmul(graph.glu(gate, up, activation), "shared.down", down);
  return graph.glu(graph.matmul(input, "shared.weigh", { inputs: MIXTURE_WIDTH, outputs: 1 }), result, "sigmoid");
}
