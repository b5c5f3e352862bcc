import { describe, expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { fuse, fuseExperts } from "./fusion.js";
import { inputsOf, outputOf, type ValueId } from "./operation.js";
import type { Program } from "./program.js";

const KV = { layers: 1, kvHeads: 2, keyWidth: 8, valueWidth: 8 };
const WIDTH = 32;

function program(write: (graph: GraphBuilder, input: ValueId) => ValueId): Program {
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
  const hidden = graph.segment("all", undefined, () =>
    graph.selectRows(write(graph, graph.embed("table", WIDTH, 64)), "outputs"),
  );
  return graph.finish({ kv: KV, vocabularySize: 64, hidden, logits: undefined });
}

function formsOf(subject: Program): readonly string[] {
  return fuse(subject).groups.map((group) => (group.form === "single" ? group.operation.kind : group.form));
}

const square = { inputs: WIDTH, outputs: WIDTH };

/** A whole layer of the usual kind. */
function layer(graph: GraphBuilder, input: ValueId): ValueId {
  const rope = graph.ropeTable({ ratio: 0.5, stretches: [1, 1, 1, 1], magnitude: 1 });
  const rotation = { headWidth: 8, rotaryWidth: 8, style: "adjacent", rope } as const;
  const normed = graph.rmsNorm(input, "norm", 1e-5);
  const query = graph.matmul(normed, "q", square);
  const key = graph.matmul(normed, "k", { inputs: WIDTH, outputs: 16 });
  const value = graph.matmul(normed, "v", { inputs: WIDTH, outputs: 16 });
  const rotated = graph.rope(query, { heads: 4, ...rotation });
  const rotatedKey = graph.rope(key, { heads: 2, ...rotation });
  const attended = graph.attention(rotated, rotatedKey, value, { layer: 0, heads: 4, ...KV, scale: 1 });
  const middle = graph.add(input, graph.matmul(attended, "o", square));
  const fed = graph.rmsNorm(middle, "ffn", 1e-5);
  const gate = graph.matmul(fed, "gate", { inputs: WIDTH, outputs: 96 });
  const up = graph.matmul(fed, "up", { inputs: WIDTH, outputs: 96 });
  return graph.add(middle, graph.matmul(graph.glu(gate, up, "silu"), "down", { inputs: 96, outputs: WIDTH }));
}

describe("fuse", () => {
  it("makes six groups of a usual layer", () => {
    expect(formsOf(program(layer))).toEqual([
      "embed",
      "matmuls",
      "rope-store",
      "attention",
      "matmul-add",
      "gated-matmul",
      "matmul-add",
      "select-rows",
    ]);
  });

  it("adds a norm behind a matmul to the residual in one group, unless the normed rows are wanted elsewhere", () => {
    const normed = (graph: GraphBuilder, input: ValueId): ValueId =>
      graph.rmsNorm(graph.matmul(input, "o", square), "post", 1e-5);
    const behind = program((graph, input) => graph.add(input, normed(graph, input)));
    expect(formsOf(behind)).toEqual(["embed", "matmuls", "norm-add", "select-rows"]);
    const twice = program((graph, input) => {
      const own = normed(graph, input);
      return graph.add(graph.add(input, own), own);
    });
    expect(formsOf(twice)).toEqual(["embed", "matmuls", "rms-norm", "add", "add", "select-rows"]);
    const heads = program((graph, input) =>
      graph.add(input, graph.rmsNorm(graph.matmul(input, "o", square), "post", 1e-5, 8)),
    );
    expect(formsOf(heads)).toEqual(["embed", "matmuls", "rms-norm", "add", "select-rows"]);
  });

  it("keeps every operation, once and in order", () => {
    const subject = program(layer);
    expect(fuse(subject).groups.flatMap(({ parts }) => parts)).toEqual(subject.operations);
  });

  it("gives memory to every value that leaves its group, and to no other", () => {
    const subject = program(layer);
    const { groups, memory } = fuse(subject);
    for (const group of groups) {
      const made = new Set(group.parts.map(outputOf));
      const foreign = group.parts.flatMap((part) => inputsOf(part)).filter((id) => !made.has(id));
      for (const id of foreign) expect(memory.slotOf[subject.values[id].base ?? id]).toBeGreaterThanOrEqual(0);
    }
    const inside = groups.flatMap((group) =>
      group.form === "gated-matmul" ? [group.gate.out, group.up.out, group.norm?.out ?? -1] : [],
    );
    for (const id of inside) expect(memory.slotOf[id]).toBe(-1);
  });

  it("takes no norm that another operation reads", () => {
    const subject = program((graph, input) => {
      const normed = graph.rmsNorm(input, "norm", 1e-5);
      return graph.add(normed, graph.add(normed, graph.matmul(normed, "q", square)));
    });
    expect(formsOf(subject)).toEqual(["embed", "rms-norm", "matmul-add", "add", "select-rows"]);
  });

  it("takes no norm of single heads", () => {
    const subject = program((graph, input) => graph.matmul(graph.rmsNorm(input, "norm", 1e-5, 8), "q", square));
    expect(formsOf(subject)).toEqual(["embed", "rms-norm", "matmuls", "select-rows"]);
  });

  it("leaves a matmul whose sum is not the only reader", () => {
    const subject = program((graph, input) => {
      const single = graph.matmul(input, "q", square);
      return graph.add(graph.add(input, single), single);
    });
    expect(formsOf(subject)).toEqual(["embed", "matmuls", "add", "add", "select-rows"]);
  });

  it("leaves gate and up that are columns of one matmul", () => {
    const subject = program((graph, input) => {
      const both = graph.matmul(input, "up", { inputs: WIDTH, outputs: 64 });
      return graph.glu(graph.columns(both, "gate", 0, 32), graph.columns(both, "up", 32, 32), "silu");
    });
    expect(formsOf(subject)).toEqual(["embed", "matmuls", "glu", "select-rows"]);
  });

  it("leaves soft-capped matmuls beside their sum, and gates of them", () => {
    const capped = { ...square, softCap: 30 };
    const summed = program((graph, input) => graph.add(input, graph.matmul(input, "q", capped)));
    expect(formsOf(summed)).toEqual(["embed", "matmuls", "add", "select-rows"]);
    const gated = program((graph, input) =>
      graph.glu(graph.matmul(input, "gate", capped), graph.matmul(input, "up", square), "gelu"),
    );
    expect(formsOf(gated)).toEqual(["embed", "matmuls", "glu", "select-rows"]);
  });

  it("crosses no segment", () => {
    const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
    const normed = graph.segment("first", 0, () => graph.rmsNorm(graph.embed("table", WIDTH, 64), "norm", 1e-5));
    const hidden = graph.segment("second", 1, () => graph.selectRows(graph.matmul(normed, "q", square), "outputs"));
    const subject = graph.finish({ kv: KV, vocabularySize: 64, hidden, logits: undefined });
    expect(formsOf(subject)).toEqual(["embed", "rms-norm", "matmuls", "select-rows"]);
  });
});

/** A network of experts from its router on. */
function experts(graph: GraphBuilder, input: ValueId, { readsDown = false } = {}): ValueId {
  const logits = graph.matmul(input, "router", { inputs: WIDTH, outputs: 8 });
  const routing = graph.emit("routing", {
    kind: "route-experts",
    input: logits,
    used: 2,
    gating: "softmax",
    renormalize: true,
  });
  const chosen = { matrices: 8, slots: 2, routing } as const;
  const gate = graph.groupedMatmul(input, "gate", { ...chosen, inputs: WIDTH, rows: 64 });
  const up = graph.groupedMatmul(input, "up", { ...chosen, inputs: WIDTH, rows: 64 });
  const gated = graph.glu(gate, up, "silu");
  const down = graph.groupedMatmul(gated, "down", { ...chosen, inputs: 64, rows: WIDTH, inputStride: 64 });
  const sum = graph.emit("sum", { kind: "sum-slots", input: down, slots: 2 });
  return graph.add(input, readsDown ? graph.add(sum, graph.columns(down, "first", 0, WIDTH)) : sum);
}

describe("fuseExperts", () => {
  const forms = (subject: Program): readonly string[] =>
    fuseExperts(subject).groups.map((group) => (group.form === "single" ? group.operation.kind : group.form));

  it("joins gate, up and activation, and the last matmul with its sum and the residual", () => {
    const subject = program(experts);
    expect(forms(subject)).toEqual([
      "embed",
      "matmuls",
      "route-experts",
      "gated-experts",
      "experts-sum",
      "select-rows",
    ]);
    expect(fuseExperts(subject).groups.flatMap(({ parts }) => parts)).toEqual(subject.operations);
    expect(formsOf(subject)).not.toContain("gated-experts");
  });

  it("gives no memory to what is inside of a group", () => {
    const { groups, memory } = fuseExperts(program(experts));
    const inside = groups.flatMap((group) => {
      if (group.form === "gated-experts") return [group.gate.out, group.up.out];
      return group.form === "experts-sum" ? [group.matmul.out, group.sum.out] : [];
    });
    expect(inside.map((id) => memory.slotOf[id])).toEqual([-1, -1, -1, -1]);
  });

  it("leaves slots that another operation reads", () => {
    const subject = program((graph, input) => experts(graph, input, { readsDown: true }));
    expect(forms(subject)).toEqual([
      "embed",
      "matmuls",
      "route-experts",
      "gated-experts",
      "grouped-matmul",
      "sum-slots",
      "add",
      "add",
      "select-rows",
    ]);
  });
});
