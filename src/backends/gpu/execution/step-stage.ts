// What the steps of one program take turns at: a stream with its memory, from the first step on. Steps come first, first
// come first served; other work that uses the same memory runs between two of them.

import type { GpuRuntime } from "../memory/runtime.js";
import { Lock } from "../drivers/shared/lock.js";
import type { StepSession } from "./step-session.js";

/** The turns of one program, and the session in which they run. */
export class StepStage {
  readonly lock = new Lock();
  /** Absent before the first step. */
  session: StepSession | undefined;
  readonly #runtime: GpuRuntime;

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
  }

  /** Runs `work` between two steps; it settles when what it queued has finished. */
  async between<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.lock.take();
    if (turn !== undefined) await turn;
    try {
      this.#runtime.assertUsable();
      const result = await work();
      await this.session?.finished();
      return result;
    } catch (error) {
      await this.settle();
      throw this.#runtime.noticed(error);
    } finally {
      this.lock.release();
    }
  }

  /** After a failure, waits for queued work before its memory is used again. */
  async settle(): Promise<void> {
    try {
      await this.session?.finished();
    } catch (error) {
      this.#runtime.noticed(error);
    }
  }
}
