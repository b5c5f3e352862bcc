import { describe, expect, it } from "vitest";
import type { StepInput } from "../backends/contract.js";
import type { KvCache } from "../backends/contract.js";
import { StepCheck } from "./step-check.js";

const KV = { layers: 1, kvHeads: 1, keyWidth: 4, valueWidth: 4 } as const;
const LIMITS = { vocabularySize: 100, maxTokens: 8, maxOutputs: 4, contextTokens: 6, kv: KV } as const;

const GREEDY = { temperature: 0, topK: 0, typicalP: 1, topP: 1, minP: 0, minKeep: 1, draw: 0 } as const;

function cache(change: object = {}, disposed = false): KvCache {
  const options = { ...KV, blocks: 8, blockTokens: 2, type: "f32" as const, ...change };
  return { options, sizeBytes: 0, disposed, copyBlocks: () => {}, copyFrom: () => {}, [Symbol.dispose]: () => {} };
}

/** Two sequences: three tokens from position 0, and one at position 5 that shares no block with them. */
const STEP: StepInput = {
  tokens: Int32Array.of(1, 2, 3, 4),
  positions: Int32Array.of(0, 1, 2, 5),
  sequenceOffsets: Int32Array.of(0, 3, 4),
  blockTables: [Int32Array.of(0, 1), Int32Array.of(3, 2, 7)],
  outputs: [
    { row: 2, want: { kind: "logits" } },
    { row: 3, want: { kind: "candidates", count: 5 } },
  ],
};

function check(change: object, kvCache: KvCache | undefined = cache()): void {
  new StepCheck(LIMITS).check({ ...STEP, ...change }, kvCache);
}

describe("StepCheck", () => {
  it("accepts a mixed step, again and again", () => {
    const checker = new StepCheck(LIMITS);
    for (let repeat = 0; repeat < 3; repeat++) expect(() => checker.check(STEP, cache())).not.toThrow();
  });

  it("accepts sequences that share a block which both only read", () => {
    const positions = Int32Array.of(2, 3, 4, 5);
    expect(() => check({ positions, blockTables: [Int32Array.of(0, 1, 4), Int32Array.of(0, 2, 3)] })).not.toThrow();
  });

  it("needs no cache for a program that has none", () => {
    const checker = new StepCheck({ ...LIMITS, kv: undefined });
    expect(() => checker.check({ ...STEP, blockTables: [] }, undefined)).not.toThrow();
  });

  describe("with cache groups", () => {
    const kv = { ...KV, layers: 2, groups: [{ layers: [0] }, { layers: [1], window: 2 }] };
    const checker = new StepCheck({ ...LIMITS, kv });
    const grouped = cache({ layers: 2, groups: kv.groups, blocks: 8, blocksByGroup: [8, 3] });
    const full = STEP.blockTables;
    // The second sequence sees positions 4 and 5, in its third block; the first two may be anything.
    const step = (...windows: readonly Int32Array[]): StepInput => ({ ...STEP, blockTables: [...full, ...windows] });

    it("accepts tables of each group, whose unseen entries may be written by others", () => {
      expect(() => checker.check(step(Int32Array.of(0, 1), Int32Array.of(0, 0, 2)), grouped)).not.toThrow();
      expect(() => checker.check(step(Int32Array.of(0, 1), Int32Array.of(1, 1, 2)), grouped)).not.toThrow();
    });

    it("accepts tables of one group for all, if their blocks are in each", () => {
      expect(() => checker.check(STEP, cache({ layers: 2, groups: kv.groups }))).not.toThrow();
      expect(() => checker.check(STEP, grouped)).toThrow(/blockTables\[1\]: expected blocks below 3, found 3/);
    });

    it.each<[string, readonly Int32Array[]]>([
      ["expected 4 tables, found 3", [Int32Array.of(0, 1)]],
      ["blockTables[2]: expected at least 2 blocks", [Int32Array.of(0), Int32Array.of(0, 0, 2)]],
      ["blockTables[3]: expected blocks below 3, found 7", [Int32Array.of(0, 1), Int32Array.of(7, 0, 2)]],
      ["block 1 again", [Int32Array.of(0, 1), Int32Array.of(0, 0, 1)]],
    ])("rejects tables: %s", (message, windows) => {
      expect(() => checker.check(step(...windows), grouped)).toThrow(message);
    });

    it("rejects a block that a query sees while another sequence writes it", () => {
      const positions = Int32Array.of(0, 1, 2, 4);
      const seen = step(Int32Array.of(0, 1), Int32Array.of(2, 1, 2));
      expect(() => checker.check({ ...seen, positions }, grouped)).toThrow("blocks that this step does not write");
    });

    it("rejects a cache with other groups", () => {
      expect(() => checker.check(STEP, cache({ layers: 2 }))).toThrow("kvCache.groups");
    });
  });

  it.each<[string, Partial<StepInput>]>([
    ["tokens", { tokens: new Int32Array() }],
    ["tokens", { tokens: new Int32Array(9) }],
    ["positions", { positions: Int32Array.of(0, 1, 2) }],
    ["positions", { positions: Int32Array.of(0, 2, 3, 5) }],
    ["positions", { positions: Int32Array.of(-1, 0, 1, 5) }],
    ["positions", { positions: Int32Array.of(0, 1, 2, 6) }],
    ["positions", { positions: [0, 1, 2, 5] as unknown as Int32Array }],
    ["tokens", { tokens: [1.5, 2, 3, 4] as unknown as Int32Array }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(0, 3) }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(0, 0, 4) }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(1, 3, 4) }],
    ["blockTables", { blockTables: [Int32Array.of(0, 1)] }],
    ["blockTables[0]", { blockTables: [Int32Array.of(0), Int32Array.of(3, 2, 7)] }],
    ["blockTables[0]", { blockTables: [Int32Array.of(4, 4), Int32Array.of(3, 2, 7)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(3, 2, 8)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(3, -2, 7)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(3, 2, 1)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(0, 2, 7)] }],
    ["outputs", { outputs: [0, 1, 2, 3, 3].map((row) => ({ row, want: { kind: "hidden" } as const })) }],
    ["outputs.want.kind", { outputs: [{ row: 0, want: { kind: "logit" } as unknown as { kind: "logits" } }] }],
    [
      "outputs.bias.values",
      {
        outputs: [
          { row: 0, want: { kind: "logits" }, bias: { ids: Int32Array.of(1), values: Float32Array.of(Number.NaN) } },
        ],
      },
    ],
    ["outputs.row", { outputs: [{ row: 4, want: { kind: "hidden" } }] }],
    ["outputs.row", { outputs: [STEP.outputs[1], STEP.outputs[0]] }],
    ["outputs.want.top", { outputs: [{ row: 0, want: { kind: "token", sampling: GREEDY, top: -1 } }] }],
    [
      "outputs.want.sampling",
      { outputs: [{ row: 0, want: { kind: "token", sampling: { ...GREEDY, draw: 1 }, top: 0 } }] },
    ],
    [
      "outputs.want.sampling.penalties.ids",
      {
        outputs: [
          {
            row: 0,
            want: {
              kind: "token",
              sampling: {
                ...GREEDY,
                penalties: {
                  ids: Int32Array.of(4, 4),
                  factors: Float32Array.of(1, 1),
                  decreases: Float32Array.of(0, 1),
                },
              },
              top: 0,
            },
          },
        ],
      },
    ],
    ["outputs.want.count", { outputs: [{ row: 0, want: { kind: "candidates", count: 0 } }] }],
    [
      "outputs.bias.ids",
      {
        outputs: [{ row: 0, want: { kind: "logits" }, bias: { ids: Int32Array.of(100), values: Float32Array.of(1) } }],
      },
    ],
    [
      "outputs.bias",
      { outputs: [{ row: 0, want: { kind: "logits" }, bias: { ids: Int32Array.of(1), values: new Float32Array() } }] },
    ],
    ["outputs.allowMask", { outputs: [{ row: 0, want: { kind: "logits" }, allowMask: new Uint32Array(3) }] }],
  ])("rejects wrong %s", (field, change) => {
    expect(() => check(change)).toThrow(
      expect.objectContaining({ code: "BACKEND_STEP", details: expect.objectContaining({ field }) }),
    );
  });

  it.each(["layers", "kvHeads", "keyWidth", "valueWidth"])("rejects a cache with other %s", (field) => {
    expect(() => check({}, cache({ [field]: 2 }))).toThrow(
      expect.objectContaining({
        code: "BACKEND_STEP",
        details: expect.objectContaining({ field: `kvCache.${field}` }),
      }),
    );
  });

  it("rejects a cache that was disposed, and a step without one", () => {
    expect(() => check({}, cache({}, true))).toThrow(expect.objectContaining({ code: "DISPOSED" }));
    expect(() => new StepCheck(LIMITS).check(STEP, undefined)).toThrow(
      expect.objectContaining({ code: "BACKEND_STEP" }),
    );
  });

  it.each([-1, 100])("rejects token %i", (token) => {
    const tokens = Int32Array.of(1, token, 3, 4);
    expect(() => check({ tokens })).toThrow(expect.objectContaining({ code: "TOKENIZER_TOKEN" }));
  });
});
