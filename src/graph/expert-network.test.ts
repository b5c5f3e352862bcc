import { describe, expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { networkInputs } from "./expert-network.js";
import { type FusedProgram, fuse } from "./fusion.js";
import type { ValueId } from "./operation.js";

const WIDTH = 64;
const EXPERT = 32;
const CHOSEN = { matrices: 8, slots: 2 } as const;

interface Variant {
  readonly residual?: boolean;
  readonly shared?: "plain" | "gated";
  /** An operation after the network that reads a value inside of it. */
  readonly reads?: "norm" | "gate" | "routing";
  readonly router?: "same norm" | "own norm" | "plain norm of its logits";
}

function network({ residual = true, shared, reads, router = "same norm" }: Variant): FusedProgram {
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
  const hidden = graph.segment("all", undefined, () => {
    const input = graph.embed("table", WIDTH, 64);
    const logitsInput = router === "own norm" ? graph.rmsNorm(input, "router norm", 1e-5) : input;
    const early =
      router === "own norm" ? graph.matmul(logitsInput, "router", { inputs: WIDTH, outputs: 8 }) : undefined;
    const normed = graph.rmsNorm(input, "norm", 1e-5);
    const scored = early ?? graph.matmul(normed, "router", { inputs: WIDTH, outputs: 8 });
    const logits = router === "plain norm of its logits" ? graph.unweightedRmsNorm(scored, 1e-5) : scored;
    const routing = graph.emit("routing", {
      kind: "route-experts",
      input: logits,
      used: 2,
      gating: "softmax",
      renormalize: true,
    });
    const half = (name: string): ValueId =>
      graph.groupedMatmul(normed, name, { ...CHOSEN, routing, inputs: WIDTH, rows: EXPERT });
    const gate = half("gate");
    const down = graph.groupedMatmul(graph.glu(gate, half("up"), "silu"), "down", {
      ...CHOSEN,
      routing,
      inputs: EXPERT,
      rows: WIDTH,
      inputStride: EXPERT,
      weighted: true,
    });
    let result = graph.emit("experts", { kind: "sum-slots", input: down, slots: 2 });
    if (shared !== undefined) {
      const [left, right] = ["sg", "su"].map((name) => graph.matmul(normed, name, { inputs: WIDTH, outputs: EXPERT }));
      const dense = graph.matmul(graph.glu(left, right, "silu"), "sd", { inputs: EXPERT, outputs: WIDTH });
      const weigh = (): ValueId => graph.matmul(normed, "weigh", { inputs: WIDTH, outputs: 1 });
      result = graph.add(result, shared === "gated" ? graph.glu(weigh(), dense, "sigmoid") : dense);
    }
    if (residual) result = graph.add(input, result);
    if (reads === "norm") result = graph.add(result, normed);
    if (reads === "gate")
      result = graph.add(result, graph.matmul(gate, "again", { inputs: 2 * EXPERT, outputs: WIDTH }));
    if (reads === "routing") result = graph.add(result, graph.matmul(routing, "again", { inputs: 4, outputs: WIDTH }));
    return graph.selectRows(result, "outputs");
  });
  const kv = { layers: 0, kvHeads: 1, keyWidth: 2, valueWidth: 2 };
  return fuse(graph.finish({ kv, vocabularySize: 64, hidden, logits: undefined }));
}

/** The kinds of operations that a network covers. */
function covered({ groups, experts: [found] }: FusedProgram): readonly string[] {
  return groups
    .slice(found.firstGroup, found.firstGroup + found.groupCount)
    .flatMap(({ parts }) => parts.map(({ kind }) => kind));
}

const CORE = ["route-experts", "grouped-matmul", "grouped-matmul", "glu", "grouped-matmul", "sum-slots"];

describe("a network of experts", () => {
  it("reaches from its norm to the sum with the residual", () => {
    const fused = network({});
    expect(covered(fused)).toEqual(["rms-norm", "matmul", ...CORE, "add"]);
    expect(fused.experts[0]).toMatchObject({ normIsRead: false, residual: 0, shared: undefined });
  });

  it("takes a shared expert along, with a weight of its own", () => {
    const plain = network({ shared: "plain" });
    expect(covered(plain)).toEqual(["rms-norm", "matmul", ...CORE, "matmul", "matmul", "glu", "matmul", "add", "add"]);
    expect(plain.experts[0].shared).toBeDefined();
    expect(plain.experts[0].core).toBeUndefined();
    const gated = network({ shared: "gated" });
    const tail = ["matmul", "matmul", "glu", "matmul", "matmul", "glu", "add", "add"];
    expect(covered(gated)).toEqual(["rms-norm", "matmul", ...CORE, ...tail]);
    expect(gated.experts[0]).toMatchObject({ normIsRead: false, residual: 0, shared: { weight: { kind: "matmul" } } });
    // What a backend computes that cannot weigh the shared expert.
    const { core } = gated.experts[0];
    expect(core).toMatchObject({ normIsRead: true, shared: undefined, residual: undefined, groupCount: 8 });
  });

  it("ends at its sum without a residual, and begins at the choice if the logits come from elsewhere", () => {
    expect(covered(network({ residual: false }))).toEqual(["rms-norm", "matmul", ...CORE]);
    const other = network({ router: "own norm" });
    expect(covered(other)).toEqual([...CORE, "add"]);
    expect(other.experts[0].norm).toBeUndefined();
    expect(covered(network({ router: "plain norm of its logits" }))).toEqual([...CORE, "add"]);
  });

  it("keeps a norm that other operations read, and is none if they read what it does not write", () => {
    expect(network({ reads: "norm" }).experts[0].normIsRead).toBe(true);
    expect(network({ reads: "gate" }).experts).toEqual([]);
    expect(network({ reads: "routing" }).experts).toEqual([]);
  });

  it("writes its result and its logits where nothing lies that it still reads", () => {
    for (const shared of ["plain", "gated", undefined] as const) {
      const { experts, memory } = network(shared === undefined ? {} : { shared });
      const [found] = experts;
      const read = networkInputs(found).map((id) => memory.slotOf[id]);
      expect(read).not.toContain(memory.slotOf[found.out]);
      expect(memory.slotOf[found.norm?.input ?? -1]).not.toBe(memory.slotOf[found.route.input]);
    }
  });
});
