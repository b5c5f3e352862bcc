// Made-up steps are steps that a plan would take, and no two rows meet in a block that one of them writes.

import { describe, expect, it } from "vitest";
import { exactSize } from "../lowering/step-bucket.js";
import { TRIAL_ROUNDS, TrialSteps } from "./trial-step.js";

const LIMITS = { vocabularySize: 1000, contextTokens: 4096, blockTokens: 32 };
const size = (tokens: number, longest: number, longestRun: number) =>
  exactSize({
    tokens,
    outputs: Math.min(tokens, 4),
    scored: Math.min(tokens, 3),
    sequences: tokens / longestRun,
    tiles: 0,
    longest,
    longestRun,
  });

describe("trial steps", () => {
  it.each([
    ["one token", size(1, 1, 1), 1, 4096],
    ["a batch deep in its sequences", size(64, 2000, 1), 64, 4096],
    ["part of a batch", size(64, 2000, 1), 5, 4096],
    ["a few tokens of one sequence", size(8, 130, 8), 8, 4096],
    ["more tokens than the context has room for in all rounds", size(8, 20, 8), 8, 20],
  ])("stay within the context and write to blocks of their own: %s", (_, wanted, rows, contextTokens) => {
    const steps = new TrialSteps(wanted, rows, { ...LIMITS, contextTokens });
    const owners = new Map<number, number>();
    for (let round = 0; round < TRIAL_ROUNDS; round++) {
      const { tokens, positions, sequenceOffsets, blockTables, outputs } = steps.step(round);
      expect(tokens).toHaveLength(rows);
      expect(Math.max(...tokens)).toBeLessThan(LIMITS.vocabularySize);
      expect(Math.max(...positions)).toBeLessThan(Math.min(contextTokens, wanted.splits * 128));
      expect(outputs.map(({ row }) => row)).toEqual(outputs.map((__, index) => rows - outputs.length + index));
      expect(blockTables.reduce((total, table) => total + table.length, 0)).toBe(steps.tableEntries);
      for (const [sequence, table] of blockTables.entries()) {
        const own = table.filter((block) => block !== 0);
        expect(new Set(own).size).toBe(own.length);
        expect(Math.max(...own)).toBeLessThan(steps.blocks);
        for (const block of own) expect(owners.get(block) ?? sequence).toBe(sequence);
        for (const block of own) owners.set(block, sequence);
        for (const position of positions.subarray(sequenceOffsets[sequence], sequenceOffsets[sequence + 1])) {
          expect(own).toContain(table[Math.floor(position / LIMITS.blockTokens)]);
        }
      }
    }
  });

  it("bring other numbers in every round", () => {
    const steps = new TrialSteps(size(4, 1000, 1), 4, LIMITS);
    const rounds = Array.from({ length: TRIAL_ROUNDS }, (_, round) => steps.step(round));
    for (const field of ["tokens", "positions"] as const)
      expect(new Set(rounds.map((step) => step[field].join())).size).toBe(TRIAL_ROUNDS);
  });
});
