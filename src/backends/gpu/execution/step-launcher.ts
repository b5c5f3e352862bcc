// Queues a step on the device: its input, then its launches, as a graph where there is one. A step whose graph is there
// can be queued behind a running one, with tokens that are not known to the host yet.

import type { StepInput } from "../../contract.js";
import type { LoweringContext } from "../lowering/context.js";
import type { LaunchSize } from "../lowering/launch.js";
import { chosenWord, type OutputPlan } from "../lowering/output-rows.js";
import { bucketKey, exactSize } from "../lowering/step-bucket.js";
import { packPreviousTokens, packStep, tableEntriesOf } from "../lowering/step-layout.js";
import type { KvCacheHold } from "../memory/kv-cache.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { BoundWeights } from "./bound-weights.js";
import { launchRunner } from "./launch-runner.js";
import type { StateBackup } from "./state-backup.js";
import type { StepAdmission } from "./step-admission.js";
import type { StepGraphs } from "./step-graphs.js";
import type { LaunchRunner } from "./step-plan.js";
import type { StepPlans } from "./step-plans.js";
import type { StepSession } from "./step-session.js";

const NO_CACHE = { groups: [], blockTokens: 1 };

interface LauncherParts {
  readonly runtime: GpuRuntime;
  readonly context: LoweringContext;
  readonly bound: BoundWeights;
  readonly plans: StepPlans;
  readonly graphs: StepGraphs;
  readonly admission: StepAdmission;
  readonly states: StateBackup;
  /** Called when every kernel of a step is loaded. */
  loaded(): void;
}

/** A step, where it runs, and what it returns. */
export interface LaunchedStep {
  readonly step: StepInput;
  readonly session: StepSession;
  readonly outputs: OutputPlan;
  readonly lease: KvCacheHold | undefined;
}

/** A step in the step buffer. */
interface PackedStep {
  readonly size: LaunchSize;
  readonly context: LoweringContext;
  /** Uploads the input, again if something else has overwritten it. */
  bring(): void;
}

/** Queues the steps of one program. */
export class StepLauncher {
  readonly #parts: LauncherParts;

  constructor(parts: LauncherParts) {
    this.#parts = parts;
  }

  /** Uploads the step's input and queues its launches; true if they are one graph. */
  launch(launched: LaunchedStep, signal: AbortSignal | undefined): boolean | Promise<boolean> {
    const { bound, graphs, admission } = this.#parts;
    const { session } = launched;
    if (session.memory.makeRoom(this.#usedBytes(launched)) || bound.hasMoved()) this.unbind();
    admission.followChoices();
    const packed = this.#pack(launched);
    packed.bring();
    return graphs.repeat(packed.size, session.stream) || this.#compute(packed, launched, signal);
  }

  /** Queues the step behind the running one, `previous`, which chooses its tokens; false if it has to wait for that one. */
  launchAsync(launched: LaunchedStep, previous: OutputPlan): boolean {
    const { bound, graphs, admission, plans } = this.#parts;
    const { session, step, outputs } = launched;
    const { memory, stream } = session;
    // Whole rows are copied in several turns, and rows of tables on the host are read by token.
    if (outputs.wholeRows.length + previous.wholeRows.length > 0 || memory.hostRows !== undefined) return false;
    if (!memory.holds(this.#usedBytes(launched)) || bound.hasMoved() || admission.isOutdated) return false;
    if (!memory.changeSides()) return false;
    const { size, context, bring } = this.#pack(launched);
    packPreviousTokens(context.step, memory.staging, step, (output) => chosenWord(previous, output));
    const bucket = admission.bucketOf(size);
    if (bucket === undefined || plans.usesBlas(size)) return false;
    const key = `${plans.nameFor(size)} ${bucketKey(bucket)}`;
    if (!graphs.has(key)) return false;
    bring();
    return graphs.replayKnown(key, size, stream);
  }

  runner({ stream, memory }: StepSession): LaunchRunner {
    return launchRunner(this.#parts.bound, this.#parts.plans, stream, memory);
  }

  /** Drops all launches that contain addresses. */
  unbind(): void {
    const { bound, graphs, plans } = this.#parts;
    bound.clear();
    graphs.clear();
    plans.unbind();
  }

  #contextOf({ step }: LaunchedStep): LoweringContext {
    return this.#parts.context.holding({ tokens: step.tokens.length, outputs: step.outputs.length });
  }

  #usedBytes(launched: LaunchedStep): number {
    const { step, outputs, lease = NO_CACHE } = launched;
    return this.#contextOf(launched).step.usedBytes(tableEntriesOf(step, lease.blockTokens), outputs.payloadWords);
  }

  #pack(launched: LaunchedStep): PackedStep {
    const { step, session, outputs, lease } = launched;
    const { memory, stream } = session;
    const context = this.#contextOf(launched);
    const usedBytes = this.#usedBytes(launched);
    const size = exactSize(packStep(context.step, memory.staging, step, outputs, lease ?? NO_CACHE));
    const bring = (): void => {
      const pending = lease?.pending;
      if (pending !== undefined) this.#parts.runtime.device.streamWait(stream, pending);
      memory.copyStep(usedBytes, stream);
    };
    return { size, context, bring };
  }

  /** Replays or captures a graph if this size has one or is due for one, otherwise launches one by one. */
  async #compute(
    { size, context, bring }: PackedStep,
    { step, session, lease }: LaunchedStep,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { plans, admission, graphs, states } = this.#parts;
    const { memory, stream } = session;
    const opening = plans.opening(size);
    if (opening !== undefined) await opening;
    await admission.admit(size);
    const wanted = plans.planFor(size, memory);
    const isSafe = !wanted.blas || states.save(`${wanted.name} ${size.tokens}`, step, lease?.states, stream);
    const { name, plan, blas } = isSafe ? wanted : plans.planFor(size, memory, { blas: false });
    const bucket = admission.bucketOf(size);
    const runner = this.runner(session);
    if (bucket !== undefined) {
      const key = `${name} ${bucketKey(bucket)}`;
      const hasCache = lease !== undefined;
      if (await graphs.replay({ key, plan, bucket, runner, session, context, hasCache, restore: bring }, size))
        return true;
    }
    await plan.load(size);
    if (blas) await plans.check?.prepare();
    this.#parts.loaded();
    signal?.throwIfAborted();
    await plan.run(size, runner, signal);
    return false;
  }
}
