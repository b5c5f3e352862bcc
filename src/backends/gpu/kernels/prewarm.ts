// Kernels made ready before somebody asks for them, a few at a time and only while nothing more urgent is under way:
// otherwise a conversation that grows or is joined by others would stop for as long as they take to compile.

import { availableParallelism } from "node:os";
import type { KernelStore, ModuleRequest } from "./kernel-store.js";

/** At a time: compilers of kernels that a step waits for are not to find every processor taken. */
const MOST_AT_A_TIME = 2;
/** Processors that a warm-up leaves to them. */
const SPARE_PROCESSORS = 2;

interface Work {
  /** Which modules are missing. */
  readonly missing: () => readonly ModuleRequest[];
  readonly done: () => void;
}

export class KernelPrewarm implements Disposable {
  readonly #store: KernelStore;
  readonly #work: Work[] = [];
  /** Modules that wait for their turn, each with what it belongs to. */
  readonly #modules: (() => Promise<void>)[] = [];
  #mostAtATime = MOST_AT_A_TIME;
  #underWay = 0;
  #timer: NodeJS.Immediate | undefined;
  #ended = false;

  constructor(store: KernelStore) {
    this.#store = store;
  }

  /**
   * `missing` says which modules are missing; it is asked when its turn has come, because finding out takes time too.
   * Resolves when they are there or have failed: the step that needs one asks again and reports the failure.
   */
  add(missing: () => readonly ModuleRequest[]): Promise<void> {
    if (this.#ended) return Promise.resolve();
    return new Promise((resolve) => {
      this.#work.push({ missing, done: resolve });
      this.#continue();
    });
  }

  /** From here on all processors but two compile, because a server is not ready before. */
  hurry(): void {
    this.#mostAtATime = Math.max(MOST_AT_A_TIME, availableParallelism() - SPARE_PROCESSORS);
  }

  /** What has not begun never will. */
  [Symbol.dispose](): void {
    this.#ended = true;
    clearImmediate(this.#timer);
    for (const { done } of this.#work.splice(0)) done();
    for (const prepare of this.#modules.splice(0)) void prepare();
  }

  /** In a turn of the loop of its own: steps go on in between. */
  #continue(): void {
    if (this.#ended || this.#timer !== undefined || this.#underWay >= this.#mostAtATime) return;
    if (this.#modules.length === 0 && this.#work.length === 0) return;
    this.#timer = setImmediate(() => {
      this.#timer = undefined;
      this.#next();
    });
  }

  #next(): void {
    const next = this.#modules.shift();
    if (next === undefined) this.#begin();
    else void next();
    this.#continue();
  }

  #begin(): void {
    const work = this.#work.shift();
    if (work === undefined) return;
    const modules = missingOf(work);
    let left = modules.length;
    if (left === 0) work.done();
    for (const module of modules) {
      this.#modules.push(async () => {
        if (!this.#ended) await this.#prepare(module);
        if (--left === 0) work.done();
      });
    }
  }

  async #prepare({ file, defines }: ModuleRequest): Promise<void> {
    this.#underWay++;
    await this.#store.module(file, defines).catch(() => {});
    this.#underWay--;
    this.#continue();
  }
}

/** What is wrong with it is the step's to report. */
function missingOf({ missing }: Work): readonly ModuleRequest[] {
  try {
    return missing();
  } catch {
    return [];
  }
}
