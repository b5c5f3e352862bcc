// Matmuls of one token whose lanes keep their part of the input (kernels/matmul/lane-rows.h), on the emulated device: a network
// that leaves its row ready for the norm of the next matmuls, in every type of weights, whole and broken rows of lanes.

import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { OutputRow } from "../../src/backends/contract.js";
import type { GpuBackend } from "../../src/backends/gpu/backend.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import type { SupportedTypeName } from "../../src/quant/layout.js";
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
} from "../conformance/harness.js";
import { Dice } from "../support/dice.js";
import { describeEmulator } from "./emulator/build.js";
import { openEmulated } from "./emulated-hip.js";
import { openModel, promptStep, writeModel } from "./random-models.js";
import { openWideBackend } from "./pretended-device.js";

/** Of the squared error to the squared result: a rounding that falls the other way is more. */
const TOLERANCE = 4e-6;
/** The same after two layers, an order of additions apart. */
const LOGITS_TOLERANCE = 2e-5;
const TOKENS = 3;
const EPSILON = 1e-5;

interface NetworkCase {
  readonly gate: SupportedTypeName;
  readonly up?: SupportedTypeName;
  readonly down: SupportedTypeName;
  readonly next: readonly SupportedTypeName[];
  readonly norm?: SupportedTypeName;
  readonly width: number;
  readonly gateWidth: number;
  readonly outputs: number;
  /** Of the residual. */
  readonly size?: number;
}

const CASES: readonly NetworkCase[] = [
  { gate: "Q4_K", down: "Q6_K", next: ["Q4_K", "Q4_K", "Q6_K"], width: 256, gateWidth: 1280, outputs: 70 },
  { gate: "Q8_0", down: "Q8_0", next: ["Q8_0"], width: 928, gateWidth: 4864, outputs: 9, norm: "F16" },
  { gate: "Q5_K", up: "Q4_K", down: "Q5_K", next: ["Q5_K", "Q5_1"], width: 1024, gateWidth: 256, outputs: 33 },
  { gate: "IQ4_XS", down: "Q3_K", next: ["Q2_K", "IQ4_NL"], width: 2304, gateWidth: 512, outputs: 20, norm: "BF16" },
  { gate: "Q4_0", down: "Q4_1", next: ["Q5_0"], width: 96, gateWidth: 160, outputs: 600 },
  { gate: "TQ1_0", up: "NVFP4", down: "MXFP4", next: ["TQ2_0"], width: 512, gateWidth: 768, outputs: 5 },
  { gate: "Q4_K", down: "Q4_K", next: ["Q4_K"], width: 256, gateWidth: 14_336, outputs: 40, size: 1e-18 },
  { gate: "Q4_K", down: "Q4_K", next: ["Q4_K"], width: 256, gateWidth: 512, outputs: 40, size: 1e15 },
];

/** Norm, gate and up, down and a residual; norm, matmuls. `rounds`: what a GPU rounds is rounded here. */
function networkCase(wanted: NetworkCase, rounds: boolean): ProgramCase {
  const { gate, up = gate, down, next, norm = "F32", width, gateWidth, outputs, size = 3 } = wanted;
  const dice = new Dice(width + gateWidth);
  const of = (type: SupportedTypeName, inputs: number, rows: number): CaseWeight =>
    randomWeight(dice, type, [inputs, rows], 1 / Math.sqrt(inputs));
  return {
    vocabularySize: TOKENS,
    weights: {
      inputs: inputTable(dice, width, TOKENS, size),
      "first.weight": randomWeight(dice, norm, [width]),
      "second.weight": randomWeight(dice, norm, [width]),
      "gate.weight": of(gate, width, gateWidth),
      "up.weight": of(up, width, gateWidth),
      "down.weight": of(down, gateWidth, width),
      "gate.bias": inputTable(dice, gateWidth, 1),
      "down.scale": floats([1], [0.37]),
      ...Object.fromEntries(next.map((type, index) => [`next${index}.weight`, of(type, width, outputs)])),
      "next0.bias": inputTable(dice, outputs, 1),
    },
    build: (graph) => {
      const rounded = (value: number): number => (rounds ? graph.quantizeActivations(value) : value);
      const table = graph.embed("inputs", width, TOKENS);
      const input = rounded(graph.rmsNorm(table, "first", EPSILON));
      const [gated, raised] = ["gate", "up"].map((name) =>
        graph.matmul(input, name, { inputs: width, outputs: gateWidth }),
      );
      const unit = rounded(graph.glu(gated, raised, "silu"));
      const sum = graph.add(table, graph.matmul(unit, "down", { inputs: gateWidth, outputs: width }));
      const normed = rounded(graph.rmsNorm(sum, "second", EPSILON));
      const made = next.map((_, index) => graph.matmul(normed, `next${index}`, { inputs: width, outputs }));
      const all = made.reduce((left, right) => graph.add(left, right));
      return { hidden: graph.selectRows(all, "outputs") };
    },
  };
}

function logitsOf([row]: readonly OutputRow[]): Float32Array {
  if (row.kind !== "logits") throw new TypeError(`a row of ${row.kind}`);
  return row.logits;
}

const STEPS = [plainStep(1), plainStep(2), plainStep(1)];

describeEmulator("matmuls of one token by lanes", () => {
  let backend: GpuBackend;
  beforeAll(() => {
    backend = openWideBackend();
  });
  afterAll(async () => await backend[Symbol.asyncDispose]());

  it.each(CASES)("$gate, $up, $down, then $next: $width and $gateWidth columns", async (wanted) => {
    const expected = await runSteps(new ReferenceBackend(), networkCase(wanted, true), STEPS);
    const found = await runSteps(backend, networkCase(wanted, false), STEPS);
    for (const index of STEPS.keys()) {
      const [left, right] = [found, expected].map((steps) => hiddenOf(steps[index], wanted.outputs));
      expect(normalisedError(left, right), `step ${index}`).toBeLessThan(TOLERANCE);
    }
  });

  it("gives the logits of a model's single tokens that the kernels of other devices give", async () => {
    const path = join(await mkdtemp(join(tmpdir(), "rocmforge-lanes-")), "model.gguf");
    await writeModel(path, { seed: 11 });
    // A prompt of eight tokens has the same kernels on both.
    const steps = [promptStep(8), ...Array.from({ length: 3 }, (_, index) => promptStep(1, 8 + index))];
    await using plain = openEmulated(32);
    const [found, expected] = await Promise.all(
      [backend, plain].map(async (each) => {
        await using model = await openModel(path, each);
        return (await model.run(steps)).map(logitsOf);
      }),
    );
    for (const index of steps.keys())
      expect(normalisedError(found[index], expected[index]), `step ${index}`).toBeLessThan(LOGITS_TOLERANCE);
    expect(found[3]).not.toEqual(expected[3]);
  });

  it("takes numbers that are none to every result", async () => {
    const wanted = { ...CASES[0], outputs: 4 };
    const program = networkCase(wanted, false);
    const bad = Float32Array.from({ length: wanted.width * TOKENS }, (_, index) => (index === 5 ? Number.NaN : 1));
    const steps = [plainStep(1)];
    const weights = { ...program.weights, inputs: floats([wanted.width, TOKENS], [...bad]) };
    const [rows] = await runSteps(backend, { ...program, weights }, steps);
    expect([...hiddenOf(rows, wanted.outputs)].every(Number.isNaN)).toBe(true);
  });
});
