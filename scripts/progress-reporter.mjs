// A vitest reporter that keeps one small file up to date: when something last began or ended, what runs now, and at the end
// which tests were skipped. `scripts/test.mjs` tells by it a slow machine from a test that hangs, and lists the skips.

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

  /** Under another name first, so that nobody reads half of it. */
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
