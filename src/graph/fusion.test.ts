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

  describe("for backends that norm heads as they store them", () => {
    const rotation = { headWidth: 8, rotaryWidth: 8, style: "halves" } as const;

    function groupsOf(write: (graph: GraphBuilder, input: ValueId) => ValueId): readonly string[] {
      return fuse(program(write), { headNorms: true }).groups.map((group) =>
        group.form === "single" ? group.operation.kind : `${group.form} of ${group.parts.length}`,
      );
    }

    /** Queries and keys that are columns of the input, prepared by `prepare`, and attention over them. */
    function attention(
      prepare: (
        graph: GraphBuilder,
        query: ValueId,
        key: ValueId,
        value: ValueId,
      ) => readonly [ValueId, ValueId, ValueId],
    ): readonly string[] {
      return groupsOf((graph, input) => {
        const [query, key] = [graph.columns(input, "q", 0, 16), graph.columns(input, "k", 16, 16)];
        const [readyQuery, readyKey, value] = prepare(graph, query, key, graph.columns(input, "v", 8, 16));
        return graph.attention(readyQuery, readyKey, value, { layer: 0, heads: 2, ...KV, scale: 1 });
      });
    }

    const rope = (graph: GraphBuilder): { readonly rope: number } => ({
      rope: graph.ropeTable({ ratio: 0.5, stretches: [1, 1, 1, 1], magnitude: 1 }),
    });

    it("joins norms, rotations and the KV write", () => {
      const before = attention((graph, query, key, value) => {
        const table = rope(graph);
        const normedValue = graph.unweightedRmsNorm(value, 1e-5, 8);
        const [q, k] = [graph.rmsNorm(query, "q_norm", 1e-5, 8), graph.rmsNorm(key, "k_norm", 1e-5, 8)];
        return [
          graph.rope(q, { heads: 2, ...rotation, ...table }),
          graph.rope(k, { heads: 2, ...rotation, ...table }),
          normedValue,
        ];
      });
      expect(before).toEqual(["embed", "head-store of 6", "attention", "select-rows"]);
      const after = attention((graph, query, key, value) => {
        const table = rope(graph);
        const q = graph.rmsNorm(graph.rope(query, { heads: 2, ...rotation, ...table }), "q_norm", 1e-5, 8);
        const k = graph.rmsNorm(graph.rope(key, { heads: 2, ...rotation, ...table }), "k_norm", 1e-5, 8);
        return [q, k, value];
      });
      expect(after).toEqual(["embed", "head-store of 5", "attention", "select-rows"]);
      expect(attention((_, query, key, value) => [query, key, value])).toEqual([
        "embed",
        "head-store of 1",
        "attention",
        "select-rows",
      ]);
    });

    it("keeps what it reads in memory until attention has written its result", () => {
      const fused = fuse(
        program((graph, input) => {
          const [query, key, value] = [graph.add(input, input), graph.add(input, input), graph.add(input, input)];
          const turned = { heads: 4, ...rotation, ...rope(graph) };
          return graph.attention(graph.rope(query, turned), graph.rope(key, turned), value, {
            layer: 0,
            heads: 4,
            kvHeads: 4,
            keyWidth: 8,
            valueWidth: 8,
            scale: 1,
          });
        }),
        { headNorms: true },
      );
      const { slotOf } = fused.memory;
      const prepared = fused.groups.find(({ form }) => form === "head-store");
      if (prepared?.form !== "head-store" || prepared.query === undefined) throw new TypeError("no heads are prepared");
      const out = fused.groups.flatMap((group) =>
        group.form === "single" && group.operation.kind === "attention" ? [group.operation.out] : [],
      );
      const read = [prepared.query.input, prepared.key.input, prepared.value.input];
      expect(out).toHaveLength(1);
      expect(read.map((id) => slotOf[id])).not.toContain(slotOf[out[0]]);
    });

    it("leaves norms of whole rows, and queries and keys that are prepared differently", () => {
      const rows = attention((graph, query, key, value) => {
        const table = rope(graph);
        const [q, k] = [graph.rmsNorm(query, "q_norm", 1e-5), graph.rmsNorm(key, "k_norm", 1e-5)];
        return [
          graph.rope(q, { heads: 2, ...rotation, ...table }),
          graph.rope(k, { heads: 2, ...rotation, ...table }),
          value,
        ];
      });
      expect(rows).toEqual(["embed", "rms-norm", "rms-norm", "head-store of 3", "attention", "select-rows"]);
      const keysOnly = attention((graph, query, key, value) => [query, graph.rmsNorm(key, "k_norm", 1e-5, 8), value]);
      expect(keysOnly).toEqual(["embed", "rms-norm", "head-store of 1", "attention", "select-rows"]);
      const twice = attention((graph, query, key, value) => {
        const table = rope(graph);
        const k = graph.rope(key, { heads: 2, ...rotation, ...table });
        return [graph.add(graph.rope(query, { heads: 2, ...rotation, ...table }), k), k, value];
      });
      expect(twice).toEqual(["embed", "rope", "rope", "add", "head-store of 1", "attention", "select-rows"]);
    });

    /** `absorb` makes the left part of queries; they are rotated by the keys' table or by their own. */
    const latentGroups = (
      absorb: (graph: GraphBuilder, input: ValueId, query: ValueId) => ValueId,
      ownTable = false,
    ): readonly string[] =>
      groupsOf((graph, input) => {
        const table = rope(graph);
        const one = { heads: 1, headWidth: 8, rotaryWidth: 8, style: "adjacent", ...table } as const;
        const latent = graph.rmsNorm(graph.columns(input, "latent", 0, 16), "norm", 1e-5);
        const join = { kind: "concat-heads", leftWidth: 16, rightWidth: 8, rightOffset: 0 } as const;
        const position = graph.rope(graph.columns(input, "position", 16, 8), one);
        const key = graph.emit("key", { ...join, left: latent, right: position, heads: 1, rightStride: 0 });
        graph.kvWrite(0, key);
        const raw = graph.columns(input, "query", 8, 16);
        const left = absorb(graph, input, raw);
        const rotated = graph.rope(raw, { ...one, heads: 2, ...(ownTable ? rope(graph) : {}) });
        const query = graph.emit("query", { ...join, left, right: rotated, heads: 2, rightStride: 8 });
        const shape = { layer: 0, heads: 2, kvHeads: 1, keyWidth: 24, valueWidth: 16, valuesInKeys: true, scale: 1 };
        return graph.attend(query, shape);
      });

    it("joins what makes the keys and queries of latent attention", () => {
      const groups = latentGroups((_, input) => input);
      expect(groups).toEqual(["embed", "latent-store of 4", "rope-concat of 2", "attention", "select-rows"]);
    });

    it("joins both if the queries' other part is a matmul of one matrix a head", () => {
      const absorb = (graph: GraphBuilder, _: ValueId, query: ValueId): ValueId =>
        graph.groupedMatmul(query, "absorb", { inputs: 8, rows: 16, matrices: 2, slots: 2, inputStride: 8 });
      expect(latentGroups(absorb)).toEqual(["embed", "latent-query of 7", "attention", "select-rows"]);
      const apart = ["latent-store of 4", "grouped-matmul", "rope-concat of 2", "attention", "select-rows"];
      expect(latentGroups(absorb, true)).toEqual(["embed", ...apart]);
    });
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
