// A step whose launches are queued, as the next one sees it that is queued behind it: what its outputs choose, and how it
// ended.

import { BackendError } from "../../../errors.js";
import type { OutputRow, StepInput } from "../../contract.js";
import type { OutputPlan } from "../lowering/output-rows.js";

/** One step from the moment its launches are queued. */
export interface QueuedStep {
  readonly outputs: OutputPlan;
  /** Whether it is one graph: then nothing of it is still to be queued. */
  readonly isReplayed: boolean;
  /** Set once it has ended. */
  ended: EndedStep | "failed" | undefined;
}

/** How a step ended. Its rows are not kept: they may be whole rows of the vocabulary. */
interface EndedStep {
  /** The token that each output chooses; 0 for outputs that choose none. */
  readonly tokens: readonly number[];
  /** Whether it was repeated: then it has overwritten what the next one began with. */
  readonly wasRepeated: boolean;
}

/** What is left to do for a step that was queued behind another. */
interface AsyncWork {
  /** Its results, once it has ended. */
  read(): readonly OutputRow[] | Promise<readonly OutputRow[]>;
  /** Rejects after an error, when nothing that is queued uses its memory any more. */
  failed(error: unknown): Promise<never>;
}

/** A step that was queued while the previous one was running. */
export class AsyncStep {
  readonly previous: QueuedStep;
  readonly queued: QueuedStep;
  readonly #whenEnded: () => Promise<void>;
  readonly #work: AsyncWork;

  constructor(previous: QueuedStep, outputs: OutputPlan, whenEnded: () => Promise<void>, work: AsyncWork) {
    this.previous = previous;
    this.queued = { outputs, isReplayed: true, ended: undefined };
    this.#whenEnded = whenEnded;
    this.#work = work;
  }

  /** One that could not be queued, and fails when its turn comes. */
  static failed(previous: QueuedStep, failed: () => Promise<never>): AsyncStep {
    const step = new AsyncStep(previous, previous.outputs, failed, { read: failed, failed });
    // No step can be queued behind it.
    step.queued.ended = "failed";
    return step;
  }

  /** Its results; undefined if it has to be run again, because the previous step did not end as it was queued. */
  async rows(): Promise<readonly OutputRow[] | undefined> {
    try {
      await this.#whenEnded();
      const { ended } = this.previous;
      if (ended === undefined || ended === "failed" || ended.wasRepeated) return undefined;
      const rows = await this.#work.read();
      this.queued.ended = endedStep(rows);
      return rows;
    } catch (error) {
      return await this.#work.failed(error);
    } finally {
      this.queued.ended ??= "failed";
    }
  }
}

/** What is kept of a step with these results. */
export function endedStep(rows: readonly OutputRow[], wasRepeated = false): EndedStep {
  return { tokens: rows.map(chosenToken), wasRepeated };
}

/** The step with all tokens that the previous one has chosen; throws BACKEND_STEP if that one failed. */
export function withChosenTokens(step: StepInput, previous: QueuedStep | undefined): StepInput {
  const { previousOutputs, ...known } = step;
  if (previousOutputs === undefined) return step;
  const chosen = tokensOf(previous);
  const tokens = step.tokens.map((token, row) => (previousOutputs[row] < 0 ? token : chosen[previousOutputs[row]]));
  return { ...known, tokens };
}

function tokensOf(previous: QueuedStep | undefined): readonly number[] {
  const ended = previous?.ended;
  if (ended !== undefined && ended !== "failed") return ended.tokens;
  throw new BackendError("BACKEND_STEP", "[step] the previous step, which chooses its tokens, has failed");
}

/** Results after a row without a token are dropped, so that any will do. */
function chosenToken(row: OutputRow): number {
  if (row.kind === "token") return Math.max(0, row.token);
  return row.kind === "candidates" ? row.ids[0] : 0;
}
