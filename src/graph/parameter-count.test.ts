import { describe, expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { countParameters } from "./parameter-count.js";

describe("countParameters", () => {
  it("counts all weights, and of experts only those that a token uses as active", () => {
    const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: (name) => name === "up.bias" });
    const hidden = graph.segment("all", undefined, () => {
      const input = graph.embed("table", 8, 10);
      const routing = graph.emit("routing", {
        kind: "route-experts",
        input: graph.matmul(input, "router", { inputs: 8, outputs: 4 }),
        used: 1,
        gating: "softmax",
        renormalize: true,
      });
      return graph.groupedMatmul(input, "up", { inputs: 8, rows: 16, matrices: 4, slots: 1, routing });
    });
    const program = graph.finish({
      kv: { layers: 0, kvHeads: 0, keyWidth: 0, valueWidth: 0 },
      vocabularySize: 10,
      hidden,
      logits: undefined,
    });
    expect(countParameters(program)).toEqual({ total: 80 + 32 + 512 + 64, active: 80 + 32 + 128 + 16 });
  });
});
