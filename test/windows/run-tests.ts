// Runs bundled test files in this process, one after the other, and writes the outcome as JSON to the file that is named
// first: what passed, failed and was skipped, with the messages of failures.

import { writeFileSync } from "node:fs";
import { type File, startTests, type Suite, type Task, type VitestRunner } from "@vitest/runner";

const TEST_LIMIT_MS = 600_000;

interface Outcome {
  passed: number;
  skipped: number;
  readonly failures: string[];
  readonly skips: Set<string>;
}

function count(task: Task, outcome: Outcome): void {
  if (task.type === "suite") {
    for (const child of (task as Suite).tasks) count(child, outcome);
    for (const error of task.result?.errors ?? []) outcome.failures.push(`${task.name}: ${error.message}`);
    return;
  }
  const state = task.result?.state;
  if (state === "pass") outcome.passed++;
  else if (state === "fail")
    outcome.failures.push(`${task.fullName}: ${task.result?.errors?.[0]?.message ?? "no message"}`);
  else {
    outcome.skipped++;
    outcome.skips.add(/\(skipped: .*?\)(?= >|$)/.exec(task.fullName)?.[0] ?? task.fullName);
  }
}

const runner: VitestRunner = {
  config: {
    root: process.cwd(),
    setupFiles: [],
    name: undefined,
    passWithNoTests: false,
    testNamePattern: undefined,
    allowOnly: false,
    sequence: { seed: 1, hooks: "stack", setupFiles: "list" },
    chaiConfig: undefined,
    maxConcurrency: 1,
    testTimeout: TEST_LIMIT_MS,
    hookTimeout: TEST_LIMIT_MS,
    retry: 0,
    includeTaskLocation: undefined,
    tags: [],
    tagsFilter: undefined,
    strictTags: false,
  } as unknown as VitestRunner["config"],
  importFile: (path: string) => import(path),
};

const [report, ...names] = process.argv.slice(2);
const outcome: Outcome = { passed: 0, skipped: 0, failures: [], skips: new Set() };
for (const name of names) {
  const before = outcome.passed;
  const start = performance.now();
  // Relative to this file, which is beside them.
  const files: File[] = await startTests([`./${name}.js`], runner);
  for (const file of files) count(file, outcome);
  process.stdout.write(`${name}: ${outcome.passed - before} passed in ${Math.round(performance.now() - start)} ms\n`);
}
writeFileSync(report, JSON.stringify({ ...outcome, skips: [...outcome.skips] }));
// Threads of the addon may still wait for work.
process.exit(0);
