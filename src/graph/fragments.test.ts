import { expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { type Fragment, fragmentsOf } from "./fragments.js";
import type { Program } from "./program.js";

const WIDTH = 8;
const VOCABULARY = 500;

/** Layers of attention and a feed-forward network; the last one continues with the output rows alone. */
function decoder(layers: number): Program {
  const graph = new GraphBuilder({
    fileName: (name) => name,
    hasTensor: (name) => !name.endsWith("scale") && !name.endsWith("bias"),
  });
  const square = { inputs: WIDTH, outputs: WIDTH };
  const heads = { heads: 2, kvHeads: 2, keyWidth: 4, valueWidth: 4, scale: 1 };
  let stream = graph.segment("embedding", undefined, () => graph.embed("table", WIDTH, VOCABULARY));
  for (let layer = 0; layer < layers; layer++) {
    stream = graph.segment(`layer ${layer}`, layer, () => {
      const normed = graph.rmsNorm(stream, `${layer}.norm`, 1e-5);
      const [query, key, value] = ["q", "k", "v"].map((name) => graph.matmul(normed, `${layer}.${name}`, square));
      const attended = graph.attention(query, key, value, { layer, ...heads });
      let sum = graph.add(stream, graph.matmul(attended, `${layer}.o`, square));
      if (layer === layers - 1) sum = graph.selectRows(sum, "outputs");
      const second = graph.rmsNorm(sum, `${layer}.second`, 1e-5);
      const gate = graph.matmul(second, `${layer}.gate`, square);
      return graph.add(sum, graph.matmul(graph.glu(gate, gate, "silu"), `${layer}.down`, square));
    });
  }
  const results = graph.segment("output", undefined, () => {
    const hidden = graph.rmsNorm(stream, "norm", 1e-5);
    const output = { inputs: WIDTH, outputs: VOCABULARY };
    return { hidden, logits: graph.matmul(graph.selectRows(hidden, "scored"), "output", output) };
  });
  return graph.finish({
    kv: { layers, kvHeads: 2, keyWidth: 4, valueWidth: 4 },
    vocabularySize: VOCABULARY,
    ...results,
  });
}

function fragments(program: Program, typeOf: (name: string) => string = () => "F32"): readonly Fragment[] {
  return fragmentsOf(program, { contextTokens: 64, describe: (weight) => typeOf(program.weights[weight].name) });
}

const kindsOf = ({ program }: Fragment): readonly string[] => program.operations.map(({ kind }) => kind);

it("cuts layers where only the residual stream passes, and has each kind once", () => {
  const found = fragments(decoder(6));
  // The last layer selects rows after attention, and its network computes fewer rows: both are kinds of their own.
  expect(found.map(({ name }) => name)).toEqual(["embedding", "layer 0", "layer 0", "layer 5", "layer 5", "output"]);
  const [embedding, attention, network, selecting, last, output] = found;
  expect(kindsOf(embedding)).toEqual(["embed", "select-rows"]);
  expect(kindsOf(attention)).toEqual([
    "embed",
    "rms-norm",
    "matmul",
    "matmul",
    "matmul",
    "kv-write",
    "attention",
    "matmul",
    "add",
    "select-rows",
  ]);
  expect(kindsOf(network)).toEqual(["embed", "rms-norm", "matmul", "glu", "matmul", "add", "select-rows"]);
  expect(kindsOf(selecting)).toEqual(["embed", "select-rows"]);
  expect(kindsOf(last)).toEqual(["embed", "select-rows", "rms-norm", "matmul", "glu", "matmul", "add"]);
  expect(kindsOf(output)).toEqual(["embed", "select-rows", "rms-norm", "select-rows", "matmul"]);
});

it("keeps a cache of one layer, and none if nothing is stored", () => {
  const [, attention, network] = fragments(decoder(3));
  expect(attention).toMatchObject({ needsCache: true, program: { kv: { layers: 1 } } });
  expect(network).toMatchObject({ needsCache: false, program: { kv: { layers: 0 } } });
});

it("gives inputs by a table, which may be part of the result", () => {
  const program = decoder(3);
  const [, attention] = fragments(program);
  const [table] = attention.residuals;
  expect(attention.weights[table]).toBeUndefined();
  expect(attention.program.weights[table].shape).toEqual([WIDTH, attention.tokens]);
  expect(
    attention.weights.filter((weight) => weight !== undefined).map((weight) => program.weights[weight].name),
  ).toEqual(expect.arrayContaining(["0.norm", "0.q.weight", "0.o.weight"]));
});

it("takes the model's own embeddings for the output, whose tables have a row for each token", () => {
  const program = decoder(2);
  const output = fragments(program).at(-1);
  expect(output?.tokens).toBe(VOCABULARY);
  expect(output?.weights).not.toContain(undefined);
  expect(output?.program.logits).toBeDefined();
});

it("tells layers apart whose weights have other types", () => {
  const typeOf = (name: string): string => (name.startsWith("2.") ? "Q6_K" : "Q4_K");
  const names = fragments(decoder(5), typeOf).map(({ name }) => name);
  expect(names.filter((name) => name === "layer 2")).toHaveLength(2);
});
