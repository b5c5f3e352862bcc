// What a program has on the device once its first step has begun: a stream, memory, and events that say when a step is
// through. Short steps are waited for by a thread that does not sleep, because waking up would be a large part of them.

import { availableParallelism } from "node:os";
import type { EventHandle, StreamHandle } from "../drivers/shared/driver.js";
import type { LoweringContext } from "../lowering/context.js";
import type { GpuRuntime } from "../memory/runtime.js";
import { StepMemory } from "./step-memory.js";

/** Fewer processor cores than this have something better to do than to look at an event. */
const MIN_SPINNING_CORES = 4;
/** How a thread waits for a replayed step. */
const REPLAY_WAIT: "spin" | "block" = availableParallelism() < MIN_SPINNING_CORES ? "block" : "spin";

export class StepSession implements Disposable {
  readonly stream: StreamHandle;
  readonly memory: StepMemory;
  readonly #runtime: GpuRuntime;
  readonly #done: EventHandle;
  readonly #soon: EventHandle;

  constructor(runtime: GpuRuntime, context: LoweringContext) {
    const { device } = runtime;
    this.#runtime = runtime;
    this.stream = device.createStream();
    try {
      this.memory = new StepMemory(runtime, context, this.stream);
      this.#done = device.createEvent();
      this.#soon = device.createEvent({ wait: REPLAY_WAIT });
    } catch (error) {
      runtime.release(() => device.destroyStream(this.stream));
      throw error;
    }
  }

  /** When everything that is queued by now is through; `soon` where that is a matter of a millisecond or two. */
  async finished({ soon = false } = {}): Promise<void> {
    const { device } = this.#runtime;
    const event = soon ? this.#soon : this.#done;
    device.record(event, this.stream);
    await device.whenDone(event);
  }

  /** Within `release` of the runtime. */
  [Symbol.dispose](): void {
    const { device } = this.#runtime;
    this.memory[Symbol.dispose]();
    device.destroyEvent(this.#done);
    device.destroyEvent(this.#soon);
    device.destroyStream(this.stream);
  }
}
