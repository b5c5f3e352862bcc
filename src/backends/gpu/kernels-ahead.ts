// Kernels made ready before somebody asks for them, a few at a time and only while nothing more urgent is under way:
// otherwise a conversation that grows or is joined by others would stop for as long as they take to compile.

import type { KernelStore, ModuleRequest } from "./kernel-store.js";

/** At a time: compilers of kernels that a step waits for are not to find every processor taken. */
const MOST_AT_A_TIME = 2;

export class KernelsAhead implements Disposable {
  readonly #store: KernelStore;
  readonly #work: (() => readonly ModuleRequest[])[] = [];
  #modules: ModuleRequest[] = [];
  #underWay = 0;
  #timer: NodeJS.Immediate | undefined;
  #ended = false;

  constructor(store: KernelStore) {
    this.#store = store;
  }

  /** `work` says which modules are missing; it is asked when its turn has come, because finding out takes time too. */
  add(work: () => readonly ModuleRequest[]): void {
    this.#work.push(work);
    this.#continue();
  }

  /** What has not begun never will. */
  [Symbol.dispose](): void {
    this.#ended = true;
    clearImmediate(this.#timer);
    this.#work.length = 0;
    this.#modules = [];
  }

  /** In a turn of the loop of its own: steps go on in between. */
  #continue(): void {
    if (this.#ended || this.#timer !== undefined || this.#underWay >= MOST_AT_A_TIME) return;
    if (this.#modules.length === 0 && this.#work.length === 0) return;
    this.#timer = setImmediate(() => {
      this.#timer = undefined;
      this.#next();
    });
  }

  #next(): void {
    const next = this.#modules.shift();
    if (next === undefined) this.#modules = [...(this.#work.shift()?.() ?? [])];
    else void this.#prepare(next);
    this.#continue();
  }

  async #prepare({ file, defines }: ModuleRequest): Promise<void> {
    this.#underWay++;
    // Whoever runs the step asks again and sees the failure.
    await this.#store.module(file, defines).catch(() => {});
    this.#underWay--;
    this.#continue();
  }
}
