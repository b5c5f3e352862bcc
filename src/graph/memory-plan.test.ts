import { describe, expect, it } from "vitest";
import { GraphBuilder } from "./builder.js";
import { scratchBytes } from "./memory-plan.js";
import { inputsOf, outputOf } from "./operation.js";
import type { Program } from "./program.js";

const KV = { layers: 1, kvHeads: 1, keyWidth: 8, valueWidth: 8 };

function chain(length: number): Program {
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
  const hidden = graph.segment("all", undefined, () => {
    let state = graph.embed("table", 8, 32);
    for (let index = 0; index < length; index++) {
      const wide = graph.matmul(state, `up.${index}`, { inputs: 8, outputs: 24 });
      const gate = graph.columns(wide, "gate", 0, 12);
      const up = graph.columns(wide, "up", 12, 12);
      state = graph.add(state, graph.matmul(graph.glu(gate, up, "silu"), `down.${index}`, { inputs: 12, outputs: 8 }));
    }
    return graph.selectRows(state, "outputs");
  });
  return graph.finish({ kv: KV, vocabularySize: 32, hidden, logits: undefined });
}

/** Runs over the operations and fails if one writes a slot that a value still to be read lives in. */
function expectNoOverlap({ values, operations, memory, hidden }: Program): void {
  const rootOf = (id: number): number => values[id].base ?? id;
  const lastRead = new Map<number, number>([[rootOf(hidden), operations.length]]);
  for (const [index, operation] of operations.entries()) {
    for (const input of inputsOf(operation))
      lastRead.set(rootOf(input), Math.max(index, lastRead.get(rootOf(input)) ?? 0));
  }
  const living = new Map<number, number>();
  for (const [index, operation] of operations.entries()) {
    const out = outputOf(operation);
    for (const [slot, root] of living) if ((lastRead.get(root) ?? -1) < index) living.delete(slot);
    if (out === undefined) continue;
    const slot = memory.slotOf[out];
    expect(living.get(slot) ?? rootOf(out), `operation ${index} overwrites a living value`).toBe(rootOf(out));
    expect(memory.slots[slot].width).toBeGreaterThanOrEqual(values[rootOf(out)].width);
    expect(memory.slots[slot].rows).toBe(values[out].rows);
    living.set(slot, rootOf(out));
  }
}

describe("planMemory", () => {
  it("gives no two living values one slot", () => {
    expectNoOverlap(chain(1));
    expectNoOverlap(chain(6));
  });

  it("needs no more memory for more layers", () => {
    const size = { tokens: 10, outputs: 1, scored: 1 };
    expect(scratchBytes(chain(20).memory, size)).toBe(scratchBytes(chain(3).memory, size));
  });

  it("counts rows of tokens and of outputs apart", () => {
    const { memory } = chain(2);
    const one = scratchBytes(memory, { tokens: 1, outputs: 0, scored: 0 });
    const output = scratchBytes(memory, { tokens: 0, outputs: 1, scored: 0 });
    expect(output).toBe(8 * 4);
    expect(scratchBytes(memory, { tokens: 7, outputs: 3, scored: 2 })).toBe(7 * one + 3 * output);
  });

  it("lets a view share its base's slot", () => {
    const { values, memory } = chain(1);
    for (const value of values) {
      if (value.base !== undefined) expect(memory.slotOf[value.id]).toBe(memory.slotOf[value.base]);
    }
  });
});

describe("Program", () => {
  it("is frozen all the way down", () => {
    const program = chain(2);
    expect(Object.isFrozen(program.operations[0])).toBe(true);
    expect(Object.isFrozen(program.memory.slots)).toBe(true);
    expect(Object.isFrozen(program.weights[0].shape)).toBe(true);
  });

  it("declares a weight that is used twice once", () => {
    const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: () => false });
    const hidden = graph.embed("token_embd.weight", 8, 32);
    const logits = graph.matmul(hidden, "token_embd", { inputs: 8, outputs: 32 });
    const program = graph.finish({ kv: KV, vocabularySize: 32, hidden, logits });
    expect(program.weights.map(({ name }) => name)).toEqual(["token_embd.weight"]);
  });
});
