// What a step returns: logits, candidates, log-sums, biases, masks and rows that are not finite, against `reference`.

import { expect, it } from "vitest";
import type { OutputRequest, OutputRow, StepInput } from "../../src/backends/contract.js";
import { Dice } from "../support/dice.js";
import { floats, type ProgramCase, runSteps } from "./harness.js";
import { referenceSteps } from "./reference-results.js";
import { describeSubjects } from "./subjects.js";

const VOCABULARY = 1003;
const ROWS = 6;

/** The logits are the input itself: an identity that costs a product with a unit matrix would only add rounding. */
function logitsCase(values: Float32Array): ProgramCase {
  return {
    vocabularySize: VOCABULARY,
    weights: {
      inputs: floats(
        [1, VOCABULARY],
        Float32Array.from({ length: VOCABULARY }, (_, token) => token + 1),
      ),
      "output.weight": floats([1, VOCABULARY], values),
    },
    build: (graph) => {
      const hidden = graph.selectRows(graph.embed("inputs", 1, VOCABULARY), "outputs");
      return {
        hidden,
        logits: graph.matmul(graph.selectRows(hidden, "scored"), "output", { inputs: 1, outputs: VOCABULARY }),
      };
    },
  };
}

function stepOf(requests: readonly Omit<OutputRequest, "row">[]): StepInput {
  return {
    tokens: Int32Array.from({ length: ROWS }, (_, row) => row),
    positions: Int32Array.from({ length: ROWS }, (_, row) => row),
    sequenceOffsets: Int32Array.of(0, ROWS),
    blockTables: [],
    outputs: requests.map((request, row) => ({ row, ...request })),
  };
}

/** Ties everywhere: candidates of equal logits come by rising id. */
function tiedValues(): Float32Array {
  const dice = new Dice(3);
  return Float32Array.from({ length: VOCABULARY }, () => Math.round(dice.between(-20, 20)) / 4);
}

const EVEN_ALLOWED = Uint32Array.from({ length: Math.ceil(VOCABULARY / 32) }, () => 0x55555555);

function expectRows(found: readonly OutputRow[], expected: readonly OutputRow[]): void {
  expect(found.map(({ kind }) => kind)).toEqual(expected.map(({ kind }) => kind));
  for (const [index, row] of expected.entries()) {
    const other = found[index];
    if (row.kind === "candidates" && other.kind === "candidates") expect(other.ids).toEqual(row.ids);
    if (row.kind !== "hidden" && row.kind !== "not-finite" && other.kind === row.kind) {
      expect(other.logits).toEqual(row.logits);
      if (Number.isFinite(row.logSum)) expect(other.logSum).toBeCloseTo(row.logSum, 5);
      else expect(other.logSum).toBe(row.logSum);
    }
    if (row.kind === "hidden" || row.kind === "not-finite") expect(other).toEqual(row);
  }
}

describeSubjects((subject) => {
  it("ranks, biases, masks and sums as reference does", async () => {
    const bias = {
      ids: Int32Array.of(5, 900, 17, 5),
      values: Float32Array.of(3, Number.NEGATIVE_INFINITY, -2.5, 0.25),
    };
    const step = stepOf([
      { want: { kind: "candidates", count: 1 } },
      { want: { kind: "candidates", count: 40 }, bias },
      { want: { kind: "logits" }, bias, allowMask: EVEN_ALLOWED },
      { want: { kind: "hidden" } },
      { want: { kind: "candidates", count: 700 }, allowMask: EVEN_ALLOWED },
      { want: { kind: "candidates", count: 5000 } },
    ]);
    await using backend = subject.create();
    const wanted = logitsCase(tiedValues());
    const [expected] = await referenceSteps(wanted, [step]);
    const [found] = await runSteps(backend, wanted, [step]);
    expectRows(found, expected);
  });

  it("says where a row is not finite and leaves the others alone", async () => {
    const values = tiedValues();
    values[333] = 3e38;
    const step = stepOf([
      { want: { kind: "logits" } },
      { want: { kind: "candidates", count: 3 } },
      { want: { kind: "hidden" } },
    ]);
    await using backend = subject.create();
    const [rows] = await runSteps(backend, logitsCase(values), [step]);
    expect(rows.map((row) => (row.kind === "not-finite" ? row.column : row.kind))).toEqual(["logits", 333, "hidden"]);
  });

  it("returns nothing likely where everything is forbidden", async () => {
    const none = new Uint32Array(Math.ceil(VOCABULARY / 32));
    const step = stepOf([
      { want: { kind: "candidates", count: 2 }, allowMask: none },
      { want: { kind: "logits" }, allowMask: none },
    ]);
    await using backend = subject.create();
    const wanted = logitsCase(tiedValues());
    const [expected] = await referenceSteps(wanted, [step]);
    const [found] = await runSteps(backend, wanted, [step]);
    expect(found.map(({ kind }) => kind)).toEqual(expected.map(({ kind }) => kind));
    expect(found[0]).toMatchObject({ logSum: Number.NEGATIVE_INFINITY });
  });
});
