import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { TuneReport } from "../../tuning.js";
import { IdleTuning, type IdleTuningHost } from "./idle-tuning.js";

const REPORT: TuneReport = { choices: [], tried: 0, rejected: 0, seconds: 0, isComplete: true, keptIn: null };

/** A program whose tuner makes measurements until it is ended. */
class ScriptedProgram implements IdleTuningHost {
  busy = false;
  measurementMs = 1;
  readonly measuredMs: number[] = [];
  disturbed = 0;
  ended = false;

  lastMs = performance.now();
  isOther = false;

  idleMs(): number {
    return this.busy ? 0 : performance.now() - this.lastMs;
  }

  isOtherTuned(): boolean {
    return this.isOther;
  }

  /** A step ends. */
  rest(tuning: IdleTuning): void {
    this.busy = false;
    this.lastMs = performance.now();
    tuning.stepEnded();
  }

  async tune(
    _pace: unknown,
    clock: Parameters<IdleTuningHost["tune"]>[1],
    turn: () => Promise<void>,
  ): Promise<TuneReport> {
    while (!clock.isOver) {
      await turn();
      if (clock.isOver) break;
      this.measuredMs.push(performance.now());
      if (this.busy) this.disturbed++;
      await new Promise((resolve) => void setTimeout(resolve, this.measurementMs));
    }
    this.ended = true;
    clock[Symbol.dispose]();
    return REPORT;
  }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

it("begins some seconds after the last step, and not before the first", async () => {
  const program = new ScriptedProgram();
  using tuning = new IdleTuning(program);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(program.measuredMs).toEqual([]);
  tuning.start();
  for (let step = 0; step < 10; step++) {
    await vi.advanceTimersByTimeAsync(1000);
    program.rest(tuning);
  }
  expect(program.measuredMs).toEqual([]);
  await vi.advanceTimersByTimeAsync(3200);
  expect(program.measuredMs.length).toBeGreaterThan(0);
});

it("measures nothing while steps run or follow one another", async () => {
  const program = new ScriptedProgram();
  using tuning = new IdleTuning(program);
  tuning.start();
  await vi.advanceTimersByTimeAsync(3500);
  const { length } = program.measuredMs;
  expect(length).toBeGreaterThan(10);
  for (let step = 0; step < 100; step++) {
    program.busy = true;
    await vi.advanceTimersByTimeAsync(10);
    program.rest(tuning);
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(program.measuredMs.length).toBeLessThanOrEqual(length + 1);
  expect(program.disturbed).toBe(0);
  await vi.advanceTimersByTimeAsync(500);
  expect(program.measuredMs.length).toBeGreaterThan(length + 10);
});

it("keeps to its budget, in which waiting does not count, and ends with its program", async () => {
  const program = new ScriptedProgram();
  program.measurementMs = 500;
  {
    using tuning = new IdleTuning(program);
    tuning.start();
    await vi.advanceTimersByTimeAsync(4000);
    program.busy = true;
    await vi.advanceTimersByTimeAsync(400_000);
    program.rest(tuning);
    expect(program.ended).toBe(false);
    await vi.advanceTimersByTimeAsync(400_000);
    expect(program.ended).toBe(true);
  }
  const other = new ScriptedProgram();
  const tuning = new IdleTuning(other);
  tuning.start();
  await vi.advanceTimersByTimeAsync(4000);
  tuning[Symbol.dispose]();
  await vi.advanceTimersByTimeAsync(10);
  expect(other.ended).toBe(true);
});

it("waits for the tuner of another program of the device, and for its steps", async () => {
  const program = new ScriptedProgram();
  using tuning = new IdleTuning(program);
  tuning.start();
  program.isOther = true;
  await vi.advanceTimersByTimeAsync(20_000);
  program.isOther = false;
  program.busy = true;
  await vi.advanceTimersByTimeAsync(20_000);
  expect(program.measuredMs).toEqual([]);
  program.lastMs = performance.now();
  program.busy = false;
  await vi.advanceTimersByTimeAsync(7000);
  expect(program.measuredMs.length).toBeGreaterThan(0);
});
