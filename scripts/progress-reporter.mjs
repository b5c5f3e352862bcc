// A vitest reporter that keeps one small file up to date: when a test last began or ended, which tests are running, and
// at the end which were skipped. By it `scripts/test.mjs` distinguishes a slow machine from a hanging test, and lists
// the skips.

import { renameSync, writeFileSync } from "node:fs";

export const PROGRESS_VARIABLE = "ROCMFORGE_TEST_PROGRESS";

export default class ProgressReporter {
  #path = process.env[PROGRESS_VARIABLE];
  #running = new Map();

  onTestRunStart() {
    this.#write();
  }

  onTestModuleStart(module) {
    this.#begin(module.id, module.relativeModuleId);
  }

  onTestModuleEnd(module) {
    this.#end(module.id);
  }

  onTestCaseReady(test) {
    this.#begin(test.id, `${test.module.relativeModuleId} > ${test.fullName}`);
  }

  onTestCaseResult(test) {
    this.#end(test.id);
  }

  onTestRunEnd(modules) {
    const skipped = [...modules].flatMap((module) => [...module.children.allTests("skipped")].map(skippedTest));
    this.#write(skipped);
  }

  #begin(id, name) {
    this.#running.set(id, name);
    this.#write();
  }

  #end(id) {
    this.#running.delete(id);
    this.#write();
  }

  /** Writes under a temporary name first, so that a reader never sees half of it. */
  #write(skipped) {
    if (this.#path === undefined) return;
    const unfinished = `${this.#path}.new`;
    writeFileSync(
      unfinished,
      JSON.stringify({ running: [...this.#running.values()], ...(skipped === undefined ? {} : { skipped }) }),
    );
    renameSync(unfinished, this.#path);
  }
}

function skippedTest(test) {
  const titles = [];
  for (let part = test; part !== undefined && part.type !== "module"; part = part.parent) titles.push(part.name);
  const { note } = test.result();
  return { file: test.module.relativeModuleId, titles, ...(note === undefined ? {} : { note }) };
}
