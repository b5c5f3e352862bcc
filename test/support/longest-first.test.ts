import { existsSync } from "node:fs";
import type { TestSpecification, Vitest } from "vitest/node";
import { expect, it } from "vitest";
import { LONGEST_FILES, LongestFirst } from "./longest-first.js";

function specification(moduleId: string, isolate: boolean): TestSpecification {
  const project = { name: isolate ? "whole" : "unit", config: { isolate, sequence: { groupOrder: 0 } } };
  return { moduleId, project } as unknown as TestSpecification;
}

it("begins with the longest files in their order, and ends with unit tests", async () => {
  const cache = { getFileTestResults: () => undefined, getFileStats: () => undefined };
  const sequencer = new LongestFirst({ config: { root: "/checkout" }, cache } as unknown as Vitest);
  const longest = LONGEST_FILES.map((file) => specification(`/checkout/${file}`, true));
  const other = specification("/checkout/test/cli/tokenize.test.ts", true);
  const unit = specification("/checkout/src/lru.test.ts", false);
  expect(await sequencer.sort([unit, other, ...longest.toReversed()])).toEqual([...longest, other, unit]);
});

it("lists files that exist, each once", () => {
  const root = new URL("../../", import.meta.url);
  expect(LONGEST_FILES.filter((file) => !existsSync(new URL(file, root)))).toEqual([]);
  expect(new Set(LONGEST_FILES).size).toBe(LONGEST_FILES.length);
});
