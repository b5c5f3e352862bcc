// Checks the modules of a step before the first step that needs them: fragments of the program that take them are computed
// by the device and by a CPU. A wrong module is found by exchanging one at a time for its next variant, is never used again
// on this device, and is named in a warning; if no variant is right the program is refused.

import { DisposedError, GpuError } from "../../../errors.js";
import type { Fragment } from "../../../graph/fragments.js";
import type { Program } from "../../../graph/program.js";
import type { Backend } from "../../contract.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import { Lock } from "../drivers/shared/lock.js";
import type { KernelGate, StepModules } from "../execution/step-admission.js";
import type { UsedModule } from "../execution/step-plan.js";
import type { KernelChoices } from "../lowering/kernel-choices.js";
import type { LaunchSize } from "../lowering/launch.js";
import type { KernelTrial, TrialFault, TrialHost } from "./kernel-trial.js";
import type { ModuleTrust } from "./module-trust.js";
import { fragmentsFor, type PlannedTrial, planTrials } from "./trial-plan.js";
import { findWrong, type WrongModules } from "./wrong-modules.js";

/** Wrong modules that are replaced before one step; more than a card that computes anything right has. */
const MAX_REPLACEMENTS = 16;

/**
 * A squared error over squared size that rounding may reach in a model with unusual weights: 10 %. If no exchange of a
 * kernel changes that, the kernels are not to blame.
 */
const DOUBTFUL = 1e-2;

/** Repacks weights when they are uploaded (kernels/weights/repack.hip). */
const REPACK_KERNEL = "repack_rows";

/** A trial whose results are wrong. */
interface FailedTrial {
  readonly trial: KernelTrial;
  readonly fault: TrialFault;
}

/** What all programs of a device share. */
export interface CheckedDevice {
  readonly trust: ModuleTrust;
  readonly choices: KernelChoices;
  /** The device's name in messages: `hip device 0`. */
  readonly place: string;
  /** The card, the driver and the compiler, human-readable. */
  readonly identity: string;
  /** Checks of several programs run one after another: they exchange kernels for all. */
  readonly lock: Lock;
  openOracle(): Promise<Backend>;
  /** Remembers what was wrong, for reports. */
  report(notice: string): void;
}

/** The check of one program's kernels. */
export class KernelCheck implements KernelGate {
  readonly #device: CheckedDevice;
  readonly #host: TrialHost;
  readonly #program: Program;
  #fragments: readonly Fragment[] | undefined;
  #refusal: GpuError | undefined;

  constructor(device: CheckedDevice, host: TrialHost, program: Program) {
    this.#device = device;
    this.#host = host;
    this.#program = program;
  }

  isTrusted(name: string): boolean {
    return this.#refusal === undefined && this.#device.trust.isTrusted(name);
  }

  async admit(step: StepModules): Promise<void> {
    const { lock } = this.#device;
    const turn = lock.take();
    if (turn !== undefined) await turn;
    const oracle = new Oracle(this.#device);
    try {
      if (this.#refusal !== undefined) throw this.#refusal;
      await this.#admit(step, () => oracle.get());
    } finally {
      await oracle[Symbol.asyncDispose]();
      lock.release();
    }
  }

  async #admit({ size, blas, needed }: StepModules, oracle: () => Promise<Backend>): Promise<void> {
    const { trust } = this.#device;
    for (let turn = 0; turn <= MAX_REPLACEMENTS; turn++) {
      const open = needed().filter(({ name }) => !trust.isTrusted(name));
      if (open.length === 0) return;
      try {
        const failed = await this.#firstFault(this.#plan(size, blas, open), oracle);
        if (failed === undefined) {
          trust.takeUnchecked(open.map(({ name }) => name));
          return;
        }
        await this.#replace(failed, oracle);
      } catch (error) {
        this.#forgive(error);
        trust.takeUnchecked(needed().map(({ name }) => name));
        return;
      }
    }
    throw this.#refuse("kernels", "more kernels than can be replaced compute wrong results");
  }

  /** Runs trials until one is wrong; modules of those that are right have passed. */
  async #firstFault(trials: readonly PlannedTrial[], oracle: () => Promise<Backend>): Promise<FailedTrial | undefined> {
    const wrong: FailedTrial[] = [];
    for (const { trial, modules } of trials) {
      const fault = await trial.fault(oracle);
      if (fault === undefined) this.#device.trust.pass(modules.map(({ name }) => name));
      else wrong.push({ trial, fault });
    }
    return wrong[0];
  }

  #plan(size: LaunchSize, blas: boolean, open: readonly UsedModule[]): readonly PlannedTrial[] {
    this.#fragments ??= fragmentsFor(this.#host, this.#program);
    return planTrials({ ...this.#host, blas }, this.#fragments, size, open).trials;
  }

  /** Replaces what is wrong in a trial. */
  async #replace({ trial, fault }: FailedTrial, oracle: () => Promise<Backend>): Promise<void> {
    const { choices, trust, identity, place } = this.#device;
    const found = await findWrong({
      choices,
      isTrusted: (name) => trust.isTrusted(name),
      modules: (trialChoices) => trial.modules(trialChoices),
      isRight: async (trialChoices) => (await trial.fault(oracle, trialChoices)) === undefined,
    });
    const where = `in ${trial.fragment.name}, ${fault.text}`;
    if (found === undefined) return this.#giveUp(trial, fault, where);
    for (const module of found.wrong) choices.avoid(module);
    trust.fail(found.wrong.map(({ name }) => name));
    const notice = `[${place}] ${wrongText(found)} computed wrong results on ${identity} (${where}); ${replacementText(found)}`;
    this.#device.report(notice);
    process.emitWarning(notice, { type: "RocmForgeWarning", code: "ROCMFORGE_WRONG_KERNEL" });
  }

  /** No variant is right: the program is refused, unless the difference may be that of two ways to round. */
  #giveUp(trial: KernelTrial, { error }: TrialFault, where: string): void {
    const modules = trial.modules();
    const names = [...modules.flatMap(({ kernels }) => kernels), ...(trial.hasRepackedWeights ? [REPACK_KERNEL] : [])];
    const kernels = [...new Set(names)].join(", ");
    if (error > DOUBTFUL) throw this.#refuse(kernels, where);
    this.#device.trust.takeUnchecked(modules.map(({ name }) => name));
    this.#warnUnchecked(`every variant of ${kernels} differs from the CPU in the same way (${where})`);
  }

  #refuse(kernels: string, reason: string): GpuError {
    const { place, identity } = this.#device;
    this.#refusal = gpuError({
      kind: "wrong results",
      place,
      what: `${kernels}: no variant computes right results on ${identity}: ${reason}`,
      details: { kernels, identity },
    });
    return this.#refusal;
  }

  /** A check that cannot be made costs certainty, not the step; a failing device or a refusal ends it. */
  #forgive(error: unknown): void {
    if (error instanceof GpuError && error.code !== "GPU_OUT_OF_MEMORY") throw error;
    if (error instanceof GpuError || error instanceof DisposedError) return;
    this.#warnUnchecked(error instanceof Error ? error.message : String(error));
  }

  #warnUnchecked(reason: string): void {
    process.emitWarning(`[${this.#device.place}] kernels could not be checked: ${reason}`, {
      type: "RocmForgeWarning",
      code: "ROCMFORGE_UNCHECKED_KERNELS",
    });
  }
}

/** The CPU that results are compared with, opened if it is needed. */
class Oracle implements AsyncDisposable {
  readonly #device: CheckedDevice;
  #opening: Promise<Backend> | undefined;

  constructor(device: CheckedDevice) {
    this.#device = device;
  }

  get(): Promise<Backend> {
    this.#opening ??= this.#device.openOracle();
    return this.#opening;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined);
    await opened?.[Symbol.asyncDispose]();
  }
}

function wrongText({ wrong }: WrongModules): string {
  const kernels = wrong.map(({ kernels: names, name }) => `${names.join(", ")} (kernels/${fileText(name)})`);
  return `the kernel${wrong.length > 1 ? "s" : ""} ${kernels.join(" and ")}`;
}

/** `matmul/gemv.hip with ROWS=2 SPLIT=1` */
function fileText(name: string): string {
  const [file, ...defines] = name.split(" ").filter((part) => part !== "");
  return defines.length === 0 ? `${file}.hip` : `${file}.hip with ${defines.join(" ")}`;
}

function replacementText({ replacements }: WrongModules): string {
  if (replacements.length === 0) return "steps are computed without it";
  return `replaced by ${replacements.map(({ name }) => fileText(name)).join(" and ")}, which computes the right ones`;
}
