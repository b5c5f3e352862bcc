// Networks with quantized weights for steps of two to eight tokens, as the verification of drafts has them: wide enough for
// every way in which rows are cut among waves, with two types in one launch, gates, biases and residuals.

import { expect, it } from "vitest";
import type { SupportedTypeName } from "../../src/quant/layout.js";
import { Dice } from "../support/dice.js";
import { remembered } from "../support/remembered.js";
import {
  type CaseWeight,
  hiddenOf,
  inputTable,
  normalisedError,
  plainStep,
  type ProgramCase,
  randomWeight,
  runSteps,
} from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

/** Of the squared error to the squared result, over two 8-bit quantizations. */
const TOLERANCE = 1e-4;
const COUNTS = [1, 2, 3, 4, 5, 7, 8];
const MOST = Math.max(...COUNTS);

interface Network {
  readonly width: number;
  readonly feedForward: number;
  readonly gate: SupportedTypeName;
  readonly up: SupportedTypeName;
  readonly down: SupportedTypeName;
  /** Rows of a last matrix. */
  readonly outputs: number;
}

const NETWORKS: readonly Network[] = [
  { width: 1024, feedForward: 1536, gate: "Q4_K", up: "Q4_K", down: "Q6_K", outputs: 300 },
  { width: 512, feedForward: 4096, gate: "Q6_K", up: "Q4_K", down: "Q4_K", outputs: 40_000 },
  { width: 256, feedForward: 13_312, gate: "Q6_K", up: "Q6_K", down: "Q6_K", outputs: 1000 },
];
const SMALL: readonly Network[] = [
  { width: 512, feedForward: 512, gate: "Q4_K", up: "Q6_K", down: "Q6_K", outputs: 40 },
  { width: 256, feedForward: 768, gate: "Q6_K", up: "Q6_K", down: "Q4_K", outputs: 70 },
];

const networkCase = remembered(createNetwork);

function createNetwork({ width, feedForward, gate, up, down, outputs }: Network): ProgramCase {
  const dice = new Dice(width + outputs);
  const matrix = (type: SupportedTypeName, inputs: number, rows: number): CaseWeight =>
    randomWeight(dice, type, [inputs, rows], 1 / Math.sqrt(inputs));
  return {
    vocabularySize: MOST,
    weights: {
      inputs: inputTable(dice, width, MOST),
      "norm.weight": randomWeight(dice, "F32", [width]),
      "gate.weight": matrix(gate, width, feedForward),
      "up.weight": matrix(up, width, feedForward),
      "down.weight": matrix(down, feedForward, width),
      "output.weight": matrix("Q6_K", width, outputs),
      "output.bias": inputTable(dice, outputs, 1),
    },
    build: (graph) => {
      const input = graph.embed("inputs", width, MOST);
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      const gated = graph.glu(
        graph.matmul(normed, "gate", { inputs: width, outputs: feedForward }),
        graph.matmul(normed, "up", { inputs: width, outputs: feedForward }),
        "silu",
      );
      const sum = graph.add(input, graph.matmul(gated, "down", { inputs: feedForward, outputs: width }));
      const last = graph.matmul(graph.quantizeActivations(sum), "output", { inputs: width, outputs });
      return { hidden: graph.selectRows(last, "outputs") };
    },
  };
}

describeSubjects((subject) => {
  it.each(subject.spread(NETWORKS, SMALL))(
    "$gate, $up and $down, $width to $feedForward columns, then $outputs rows",
    async (network) => {
      const wanted = networkCase(network);
      const [all] = await referenceSteps(wanted, [plainStep(MOST)]);
      const expected = hiddenOf(all, network.outputs);
      await using backend = subject.create();
      const found = await runSteps(
        backend,
        wanted,
        COUNTS.map((count) => plainStep(count)),
      );
      for (const [index, count] of COUNTS.entries()) {
        const rows = hiddenOf(found[index], network.outputs);
        const error = normalisedError(rows, expected.subarray(0, count * network.outputs));
        expect(error, `${count} tokens`).toBeLessThan(TOLERANCE);
      }
    },
  );
});
