// Compiles kernels before a step needs them, a few at a time and only while nothing more urgent is running: otherwise a
// longer context or a larger batch would stall for as long as its kernels take to compile.

import { availableParallelism } from "node:os";
import type { KernelStore, ModuleRequest } from "./kernel-store.js";

/** Modules compiled at a time: kernels that a step waits for must not find every processor busy. */
const MAX_AT_A_TIME = 2;
/** Processors that a warm-up leaves to kernels that steps wait for. */
const SPARE_PROCESSORS = 2;

interface Work {
  /** Which modules are missing. */
  readonly missing: () => readonly ModuleRequest[];
  readonly done: () => void;
}

/** Compiles modules in the background, in order of request. */
export class KernelPrewarm implements Disposable {
  readonly #store: KernelStore;
  readonly #work: Work[] = [];
  /** Modules that wait to be compiled. */
  readonly #modules: (() => Promise<void>)[] = [];
  #mostAtATime = MAX_AT_A_TIME;
  #underWay = 0;
  #timer: NodeJS.Immediate | undefined;
  #ended = false;

  constructor(store: KernelStore) {
    this.#store = store;
  }

  /**
   * Queues the modules that `missing` returns; it is called when its turn comes, because it takes time too. Resolves
   * when they are loaded or have failed: the step that needs one loads it again and reports the failure.
   */
  add(missing: () => readonly ModuleRequest[]): Promise<void> {
    if (this.#ended) return Promise.resolve();
    return new Promise((resolve) => {
      this.#work.push({ missing, done: resolve });
      this.#continue();
    });
  }

  /** From here on all processors but two compile, because a server waits for it to become ready. */
  hurry(): void {
    this.#mostAtATime = Math.max(MAX_AT_A_TIME, availableParallelism() - SPARE_PROCESSORS);
  }

  /** Cancels everything that has not begun. */
  [Symbol.dispose](): void {
    this.#ended = true;
    clearImmediate(this.#timer);
    for (const { done } of this.#work.splice(0)) done();
    for (const prepare of this.#modules.splice(0)) void prepare();
  }

  /** Continues in a later turn of the event loop, so that steps run in between. */
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

/** Errors are reported by the step that needs the modules. */
function missingOf({ missing }: Work): readonly ModuleRequest[] {
  try {
    return missing();
  } catch {
    return [];
  }
}
