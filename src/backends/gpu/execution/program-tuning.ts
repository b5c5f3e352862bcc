// A program's part in tuning: when its kernels are tuned, in the background or at once, what a tuner may use of it
// meanwhile, and what becomes of its plans afterwards.

import { DisposedError } from "../../../errors.js";
import type { KernelTime, ProfileOptions, TuneOptions, TuneReport } from "../../tuning.js";
import type { DeviceRecord } from "../kernels/device-record.js";
import { choiceName } from "../lowering/kernel-choices.js";
import { activityOf, type DeviceActivity } from "./device-activity.js";
import { IdleTuning } from "./idle-tuning.js";
import { FULL_PACE, ProgramTuner, type ProgramTunerOptions } from "./program-tuner.js";
import { keptChoices } from "./recorded-choices.js";
import { profileStep } from "./step-profile.js";
import type { TuningHost } from "./tuning-step.js";

/** Whether and where a program's kernels are tuned. */
export interface ProgramTuningOptions {
  /** Where choices are kept; absent: kernels are not tuned. */
  readonly record?: DeviceRecord;
  /** Whether to tune while the program is idle. */
  readonly tune: boolean;
  /** Whether launches may be captured. */
  readonly graphs: boolean;
  /** Whether the choice of this name is made; absent: all are. */
  readonly isTuned?: (name: string) => boolean;
}

/** What tuning needs of its program. */
export interface TuningProgram extends TuningHost {
  /** Lowers and captures steps anew, between two of them. */
  refresh(): Promise<void>;
}

/** The tuning of one program. */
export class ProgramTuning implements Disposable {
  readonly #program: TuningProgram;
  readonly #options: ProgramTuningOptions;
  readonly #idle: IdleTuning | undefined;
  readonly #ending = new AbortController();
  readonly #activity: DeviceActivity;
  /** One at a time: they would disturb each other's measurements. */
  #running: Promise<unknown> | undefined;

  constructor(program: TuningProgram, options: ProgramTuningOptions) {
    this.#program = program;
    this.#options = options;
    this.#activity = activityOf(program.runtime.device);
    if (!options.tune || options.record === undefined) return;
    this.#idle = new IdleTuning({
      idleMs: () => this.#activity.idleMs,
      isOtherTuned: () => this.#activity.isTuned,
      tune: (pace, clock, turn) => {
        const host: TuningHost = {
          ...program,
          alone: async (work) => {
            await turn();
            return await program.alone(work);
          },
        };
        return this.#begin(new ProgramTuner(host, this.#tunerOptions, { budgetMs: 0 }, this.#unknown(pace), clock));
      },
    });
  }

  /** Call after the first step. */
  start(): void {
    this.#idle?.start();
  }

  stepBegan(): void {
    this.#activity.stepBegan();
  }

  stepEnded(): void {
    this.#activity.stepEnded();
    this.#idle?.stepEnded();
  }

  /** Tunes everything at once, also what was tuned before. */
  async tune(options: TuneOptions): Promise<TuneReport> {
    this.#idle?.[Symbol.dispose]();
    await this.#running;
    const signals = [this.#ending.signal, ...(options.signal === undefined ? [] : [options.signal])];
    const signal = AbortSignal.any(signals);
    return await this.#begin(new ProgramTuner(this.#program, this.#tunerOptions, { ...options, signal }, FULL_PACE));
  }

  /** Times the kernels of a step; a tuner waits meanwhile. */
  async profile({ signal, ...size }: ProfileOptions): Promise<readonly KernelTime[]> {
    this.#idle?.[Symbol.dispose]();
    await this.#running;
    return await profileStep(this.#program, size, { graphs: this.#options.graphs, signal });
  }

  /** Resolves when nothing of a tuner is left; undefined if that is so. */
  get ended(): Promise<unknown> | undefined {
    return this.#running;
  }

  /** Ends tuning soon. */
  [Symbol.dispose](): void {
    this.#idle?.[Symbol.dispose]();
    this.#ending.abort(new DisposedError("the program"));
  }

  get #tunerOptions(): ProgramTunerOptions {
    const { record } = this.#options;
    if (record === undefined) throw new TypeError("kernels of this program are not tuned");
    return { ...this.#options, record };
  }

  /** A pace that leaves out what was tuned in an earlier process. */
  #unknown(pace: Omit<typeof FULL_PACE, "skipped">): typeof FULL_PACE {
    const { deterministic } = this.#program.context.options;
    const kept = keptChoices(this.#tunerOptions.record, deterministic);
    return { ...pace, skipped: new Set(kept.map(({ family, key }) => choiceName(family, key))) };
  }

  async #begin(tuner: ProgramTuner): Promise<TuneReport> {
    this.#activity.isTuned = true;
    const report = tuner.run();
    const running = report.then(
      ({ choices }) => (choices.length > 0 && !this.#ending.signal.aborted ? this.#program.refresh() : undefined),
      () => {},
    );
    this.#running = running
      .catch(() => {})
      .finally(() => {
        this.#activity.isTuned = false;
        this.#running = undefined;
      });
    await this.#running;
    return await report;
  }
}
