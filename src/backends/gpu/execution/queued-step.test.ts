import { describe, expect, it } from "vitest";
import type { OutputRow, StepInput } from "../../contract.js";
import { planOutputs } from "../lowering/output-rows.js";
import { AsyncStep, endedStep, type QueuedStep, withChosenTokens } from "./queued-step.js";

const OUTPUTS = planOutputs([], 8);
const CANDIDATES = {
  kind: "candidates",
  ids: Int32Array.of(5, 2),
  logits: Float32Array.of(1, 0),
  logSum: 2,
} as const satisfies OutputRow;
const NOTHING_ALLOWED = {
  kind: "token",
  token: -1,
  logit: 0,
  ids: new Int32Array(),
  logits: new Float32Array(),
  logSum: Number.NEGATIVE_INFINITY,
} as const satisfies OutputRow;

const STEP: StepInput = {
  tokens: Int32Array.of(0, 7, 0, 0),
  positions: Int32Array.of(1, 1, 1, 1),
  sequenceOffsets: Int32Array.of(0, 1, 2, 3, 4),
  blockTables: [],
  outputs: [],
  previousOutputs: Int32Array.of(1, -1, 0, 2),
};

function queued(ended: QueuedStep["ended"]): QueuedStep {
  return { outputs: OUTPUTS, isReplayed: true, ended };
}

describe("a step whose tokens the previous one chooses", () => {
  it("has the tokens of the outputs that it names, any for a row without one, and known ones", () => {
    const previous = queued(endedStep([NOTHING_ALLOWED, CANDIDATES, { kind: "not-finite", column: 3 }]));
    const { tokens, previousOutputs } = withChosenTokens(STEP, previous);
    expect(tokens).toEqual(Int32Array.of(5, 7, 0, 0));
    expect(previousOutputs).toBeUndefined();
  });

  it.each([undefined, queued("failed"), queued(undefined)])("fails if that one did not end: %o", (previous) => {
    expect(() => withChosenTokens(STEP, previous)).toThrow(/the previous step, which chooses its tokens, has failed/);
  });

  it("has failed at once if it could not be queued, and rejects when its turn comes", async () => {
    const step = AsyncStep.failed(queued(undefined), async () => await Promise.reject(new Error("no room")));
    expect(step.queued.ended).toBe("failed");
    await expect(step.rows()).rejects.toThrow("no room");
  });

  it("is run again after one that was repeated", async () => {
    const previous = queued(undefined);
    const failed = async () => await Promise.reject(new Error("not asked for"));
    const step = new AsyncStep(previous, OUTPUTS, async () => {}, { read: () => [], failed });
    previous.ended = endedStep([CANDIDATES], true);
    expect(await step.rows()).toBeUndefined();
    expect(step.queued.ended).toBe("failed");
  });
});
