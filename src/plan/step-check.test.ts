import { describe, expect, it } from "vitest";
import type { StepInput } from "../backends/contract.js";
import { checkStep } from "./step-check.js";

const LIMITS = {
  vocabularySize: 100,
  maxStepTokens: 8,
  kvCache: { layers: 1, kvHeads: 1, keyWidth: 4, valueWidth: 4, blocks: 4, blockTokens: 2, type: "f32" },
} as const;

/** Two sequences: three tokens from position 0, and one at position 5. */
const STEP: StepInput = {
  tokens: Int32Array.of(1, 2, 3, 4),
  positions: Int32Array.of(0, 1, 2, 5),
  sequenceOffsets: Int32Array.of(0, 3, 4),
  blockTables: [Int32Array.of(0, 1), Int32Array.of(3, 2, 0)],
  outputs: [
    { row: 2, want: { kind: "logits" } },
    { row: 3, want: { kind: "candidates", count: 5 } },
  ],
};

describe("checkStep", () => {
  it("accepts a mixed step", () => {
    expect(() => checkStep(STEP, LIMITS)).not.toThrow();
  });

  it.each<[string, Partial<StepInput>]>([
    ["tokens", { tokens: new Int32Array() }],
    ["tokens", { tokens: new Int32Array(9) }],
    ["positions", { positions: Int32Array.of(0, 1, 2) }],
    ["positions", { positions: Int32Array.of(0, 2, 3, 5) }],
    ["positions", { positions: Int32Array.of(-1, 0, 1, 5) }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(0, 3) }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(0, 0, 4) }],
    ["sequenceOffsets", { sequenceOffsets: Int32Array.of(1, 3, 4) }],
    ["blockTables", { blockTables: [Int32Array.of(0, 1)] }],
    ["blockTables[0]", { blockTables: [Int32Array.of(0), Int32Array.of(3, 2, 0)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(3, 2, 4)] }],
    ["blockTables[1]", { blockTables: [Int32Array.of(0, 1), Int32Array.of(3, -2, 0)] }],
    ["outputs.row", { outputs: [{ row: 4, want: { kind: "hidden" } }] }],
    ["outputs.row", { outputs: [STEP.outputs[1], STEP.outputs[0]] }],
    ["outputs.want.count", { outputs: [{ row: 0, want: { kind: "candidates", count: 0 } }] }],
    ["outputs.bias.ids", { outputs: [{ row: 0, want: { kind: "logits" }, bias: { ids: Int32Array.of(100), values: Float32Array.of(1) } }] }],
    ["outputs.bias", { outputs: [{ row: 0, want: { kind: "logits" }, bias: { ids: Int32Array.of(1), values: new Float32Array() } }] }],
    ["outputs.allowMask", { outputs: [{ row: 0, want: { kind: "logits" }, allowMask: new Uint32Array(3) }] }],
  ])("rejects wrong %s", (field, change) => {
    expect(() => checkStep({ ...STEP, ...change }, LIMITS)).toThrow(
      expect.objectContaining({ code: "BACKEND_STEP", details: expect.objectContaining({ field }) }),
    );
  });

  it.each([-1, 100])("rejects token %i", (token) => {
    const tokens = Int32Array.of(1, token, 3, 4);
    expect(() => checkStep({ ...STEP, tokens }, LIMITS)).toThrow(expect.objectContaining({ code: "TOKENIZER_TOKEN" }));
  });
});
