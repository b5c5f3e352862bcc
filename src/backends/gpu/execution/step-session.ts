// What a program holds on the device from its first step on: a stream, memory, and events for the end of a step. Short
// steps are awaited by a thread that spins, because waking up would take a large part of their time.

import { availableParallelism } from "node:os";
import type { EventHandle, StreamHandle } from "../drivers/shared/driver.js";
import { traced } from "../drivers/shared/start-trace.js";
import type { LoweringContext } from "../lowering/context.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { StepMemory } from "./step-memory.js";

/** On machines with fewer processor cores, threads do not spin. */
const MIN_SPINNING_CORES = 4;
/** How a thread waits for a replayed step. */
const REPLAY_WAIT: "spin" | "block" = availableParallelism() < MIN_SPINNING_CORES ? "block" : "spin";

/** Stream, memory and completion events of one program. */
export class StepSession implements Disposable {
  readonly stream: StreamHandle;
  readonly memory: StepMemory;
  readonly #runtime: GpuRuntime;
  readonly #done: EventHandle;
  /** In turns: a step may be queued before the one before it has ended. */
  readonly #soon: EventHandle[] = [];
  #recorded = 0;

  /** `cleared`: see `StepMemory`. */
  constructor(runtime: GpuRuntime, context: LoweringContext, { cleared = false } = {}) {
    const { device } = runtime;
    this.#runtime = runtime;
    this.stream = device.createStream();
    try {
      this.memory = traced("memory of steps", () => new StepMemory(runtime, context, this.stream, { cleared }));
      this.#done = device.createEvent();
      for (let count = 0; count < 2; count++) this.#soon.push(device.createEvent({ wait: REPLAY_WAIT }));
    } catch (error) {
      runtime.release(() => device.destroyStream(this.stream));
      throw error;
    }
  }

  /** Resolves when everything queued so far has finished; `soon` if that takes only a millisecond or two. */
  async finished({ soon = false } = {}): Promise<void> {
    if (soon) return await this.recordEnd()();
    const { device } = this.#runtime;
    device.record(this.#done, this.stream);
    await device.whenDone(this.#done);
  }

  /** Marks the end of what is queued so far; the result waits for it. At most two are waited for at a time. */
  recordEnd(): () => Promise<void> {
    const { device } = this.#runtime;
    const event = this.#soon[this.#recorded++ % this.#soon.length];
    device.record(event, this.stream);
    return async () => await device.whenDone(event);
  }

  /** Within `release` of the runtime. */
  [Symbol.dispose](): void {
    const { device } = this.#runtime;
    this.memory[Symbol.dispose]();
    device.destroyEvent(this.#done);
    for (const event of this.#soon) device.destroyEvent(event);
    device.destroyStream(this.stream);
  }
}
