// Dense matmuls of many tokens as cases of the harness, for kernels that only some cards have: one matrix with its epilogue, a
// gated network, and what attention leaves.

import type { StepInput } from "../../src/backends/contract.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { floats, inputTable, plainStep, type ProgramCase, randomWeight } from "../conformance/harness.js";
import { Dice } from "../support/dice.js";

/** Tokens of a step, at most. */
const MOST_GEMM_TOKENS = 300;

/** Every third row is asked for: fewer than a step may have. */
export function stepOf(tokens: number): StepInput {
  const step = plainStep(tokens);
  return { ...step, outputs: step.outputs.filter(({ row }) => row % 3 === 0) };
}

interface Shape {
  readonly inputs: number;
  readonly outputs: number;
}

export function matmulCase(type: SupportedTypeName, { inputs, outputs }: Shape): ProgramCase {
  const dice = new Dice(inputs + outputs);
  return {
    vocabularySize: MOST_GEMM_TOKENS,
    weights: {
      inputs: inputTable(dice, inputs, MOST_GEMM_TOKENS),
      "product.weight": randomWeight(dice, type, [inputs, outputs], 1 / Math.sqrt(inputs)),
      "product.bias": inputTable(dice, outputs, 1),
      "product.scale": floats([1], [0.37]),
    },
    build: (graph) => {
      const input = graph.quantizeActivations(graph.embed("inputs", inputs, MOST_GEMM_TOKENS));
      return { hidden: graph.selectRows(graph.matmul(input, "product", { inputs, outputs }), "outputs") };
    },
  };
}

export const NETWORK_WIDTH = 256;
const GATE_WIDTH = 512;

/** Norm, gate and up, down and a residual. */
export function networkCase(type: SupportedTypeName, downType: SupportedTypeName): ProgramCase {
  const dice = new Dice(5);
  const gateShape = { inputs: NETWORK_WIDTH, outputs: GATE_WIDTH };
  return {
    vocabularySize: MOST_GEMM_TOKENS,
    weights: {
      inputs: inputTable(dice, NETWORK_WIDTH, MOST_GEMM_TOKENS),
      "norm.weight": inputTable(dice, NETWORK_WIDTH, 1),
      "gate.weight": randomWeight(dice, type, [NETWORK_WIDTH, GATE_WIDTH], 1 / 16),
      "up.weight": randomWeight(dice, type, [NETWORK_WIDTH, GATE_WIDTH], 1 / 16),
      "down.weight": randomWeight(dice, downType, [GATE_WIDTH, NETWORK_WIDTH], 1 / 24),
    },
    build: (graph) => {
      const table = graph.embed("inputs", NETWORK_WIDTH, MOST_GEMM_TOKENS);
      const input = graph.rmsNorm(table, "norm", 1e-5);
      const gate = graph.matmul(input, "gate", gateShape);
      const up = graph.matmul(input, "up", gateShape);
      const down = graph.matmul(graph.glu(gate, up, "silu"), "down", { inputs: GATE_WIDTH, outputs: NETWORK_WIDTH });
      return { hidden: graph.selectRows(graph.add(table, down), "outputs") };
    },
  };
}

const HEADS = { heads: 4, kvHeads: 2, keyWidth: 64, valueWidth: 64 };
const BLOCK_TOKENS = 16;
const SEQUENCES = 12;
const SEQUENCE_BLOCKS = 4;

/** Attention, whose result only a matmul reads. */
export function attentionCase(type: SupportedTypeName): ProgramCase {
  const dice = new Dice(9);
  const { heads, kvHeads, keyWidth, valueWidth } = HEADS;
  const [queries, keys] = [heads * keyWidth, kvHeads * keyWidth];
  const shape = { inputs: heads * valueWidth, outputs: NETWORK_WIDTH };
  return {
    vocabularySize: MOST_GEMM_TOKENS,
    kv: { layers: 1, kvHeads, keyWidth, valueWidth },
    kvCacheType: "f16",
    blockTokens: BLOCK_TOKENS,
    blocks: SEQUENCES * SEQUENCE_BLOCKS,
    weights: {
      inputs: inputTable(dice, queries + 2 * keys, MOST_GEMM_TOKENS, 1.5),
      "product.weight": randomWeight(dice, type, [shape.inputs, shape.outputs], 1 / 16),
    },
    build: (graph) => {
      const input = graph.embed("inputs", queries + 2 * keys, MOST_GEMM_TOKENS);
      const rope = graph.ropeTable({
        ratio: 1,
        stretches: Array.from({ length: keyWidth / 2 }, () => 1),
        magnitude: 1,
      });
      const rotation = { headWidth: keyWidth, rotaryWidth: keyWidth, style: "halves", rope } as const;
      const query = graph.rope(graph.columns(input, "query", 0, queries), { heads, ...rotation });
      const key = graph.rope(graph.columns(input, "key", queries, keys), { heads: kvHeads, ...rotation });
      const value = graph.columns(input, "value", queries + keys, keys);
      const attended = graph.attention(query, key, value, { layer: 0, ...HEADS, scale: 1 / 8 });
      return { hidden: graph.selectRows(graph.matmul(attended, "product", shape), "outputs") };
    },
  };
}

/** A prompt of every sequence, and then a token of each. */
export function servedSteps(): readonly StepInput[] {
  const tables = Array.from({ length: SEQUENCES }, (_, sequence) =>
    Int32Array.from({ length: SEQUENCE_BLOCKS }, (__, block) => sequence * SEQUENCE_BLOCKS + block),
  );
  const lengths = tables.map((_, sequence) => 10 + 3 * sequence);
  const prompts = tables.map((table, sequence): StepInput => ({
    ...plainStep(lengths[sequence], { blockTokens: BLOCK_TOKENS }),
    blockTables: [table],
  }));
  const together: StepInput = {
    tokens: Int32Array.from(tables, (_, sequence) => 7 * sequence + 1),
    positions: Int32Array.from(lengths),
    sequenceOffsets: Int32Array.from({ length: SEQUENCES + 1 }, (_, sequence) => sequence),
    blockTables: tables,
    outputs: tables.map((_, row) => ({ row, want: { kind: "hidden" } })),
  };
  return [...prompts, together];
}
