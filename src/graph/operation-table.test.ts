import { describe, expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { fieldsOf, inputsOf, type Operation, outputOf, weightsOf } from "./operation.js";

const graph = (): GraphBuilder => new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });

describe("fields of operations", () => {
  it("are inputs, weights and the output by their role, in the table's order, without absent ones", () => {
    const matmul: Operation = { kind: "matmul", input: 3, weight: 7, bias: 9, softCap: 30, out: 4 };
    expect(inputsOf(matmul)).toEqual([3]);
    expect(weightsOf(matmul)).toEqual([7, 9]);
    expect(outputOf(matmul)).toBe(4);
    expect(fieldsOf(matmul).map(({ name }) => name)).toEqual(["input", "weight", "bias", "softCap", "out"]);
    const write: Operation = { kind: "kv-write", layer: 2, key: 5, value: 6 };
    expect(inputsOf(write)).toEqual([5, 6]);
    expect(outputOf(write)).toBeUndefined();
  });

  it("count sinks and rope factors as weights", () => {
    const heads = { heads: 2, kvHeads: 1, keyWidth: 4, valueWidth: 4, scale: 1 };
    expect(weightsOf({ kind: "attention", layer: 0, query: 1, ...heads, sinks: 8, out: 2 })).toEqual([8]);
    const rope = { heads: 2, headWidth: 4, rotaryWidth: 4, style: "halves", rope: 3 } as const;
    expect(weightsOf({ kind: "rope", input: 1, ...rope, factors: 6, out: 2 })).toEqual([6]);
    expect(inputsOf({ kind: "rope", input: 1, ...rope, out: 2 })).toEqual([1]);
  });
});

describe("emit", () => {
  it("adds an operation whose result has its name and the shape of the table", () => {
    const builder = graph();
    const ids = builder.segment("case", undefined, () => {
      const input = builder.embed("table", 8, 10);
      const kept = builder.emit("kept", { kind: "select-rows", rows: "outputs", input });
      const doubled = builder.emit("doubled", { kind: "add", left: kept, right: kept });
      return { kept, hidden: doubled };
    });
    const { values, operations } = builder.finish({
      kv: { layers: 0, kvHeads: 1, keyWidth: 2, valueWidth: 2 },
      vocabularySize: 10,
      hidden: ids.hidden,
      logits: undefined,
    });
    expect(operations.at(-1)).toEqual({ kind: "add", left: ids.kept, right: ids.kept, out: ids.hidden });
    expect(values[ids.hidden]).toMatchObject({ name: "doubled", rows: "outputs", width: 8 });
  });

  it("rejects operands that do not fit", () => {
    const builder = graph();
    const [left, right] = builder.segment("case", undefined, () => [
      builder.embed("table", 8, 10),
      builder.embed("other", 9, 10),
    ]);
    expect(() => builder.emit("sum", { kind: "add", left, right })).toThrow("add: the operands differ in shape");
  });
});

describe("shape rules", () => {
  const heads = { layer: 0, heads: 4, kvHeads: 2, keyWidth: 8, valueWidth: 8, scale: 1 };

  it.each<[string, (builder: GraphBuilder) => unknown]>([
    [
      "a matmul of other rows",
      (builder) => builder.matmul(builder.embed("table", 8, 10), "wide", { inputs: 16, outputs: 4 }),
    ],
    [
      "a norm whose groups do not divide a row",
      (builder) => builder.rmsNorm(builder.embed("table", 8, 10), "norm", 1, 3),
    ],
    ["a sum of unequal rows", (builder) => builder.add(builder.embed("table", 8, 10), builder.embed("other", 9, 10))],
    [
      "a sum of tokens and outputs",
      (builder) => {
        const table = builder.embed("table", 8, 10);
        return builder.add(table, builder.selectRows(table, "outputs"));
      },
    ],
    [
      "heads that do not fill a row",
      (builder) => {
        const table = builder.embed("table", 24, 10);
        return builder.attention(table, table, table, heads);
      },
    ],
    [
      "KV heads that do not divide the heads",
      (builder) => {
        const table = builder.embed("table", 32, 10);
        return builder.attention(table, table, table, { ...heads, kvHeads: 3 });
      },
    ],
    [
      "a window of no position",
      (builder) => {
        const table = builder.embed("table", 32, 10);
        return builder.attention(table, table, table, { ...heads, window: 0 });
      },
    ],
    [
      "an odd number of rotated columns",
      (builder) => {
        const rope = builder.ropeTable({ ratio: 1, stretches: [1], magnitude: 1 });
        const table = builder.embed("table", 8, 10);
        return builder.rope(table, { heads: 1, headWidth: 8, rotaryWidth: 3, style: "halves", rope });
      },
    ],
  ])("refuse %s", (_, write) => {
    const builder = graph();
    expect(() => builder.segment("case", undefined, () => write(builder))).toThrow(TypeError);
  });
});
