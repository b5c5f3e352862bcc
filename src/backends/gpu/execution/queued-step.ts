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
  /** Its results once it has ended. A step that was repeated has overwritten what the next one began with. */
  ended: { readonly rows: readonly OutputRow[]; readonly wasRepeated: boolean } | "failed" | undefined;
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
    return new AsyncStep(previous, previous.outputs, failed, {
      read: failed,
      failed,
    });
  }

  /** Its results; undefined if it has to be run again, because the previous step did not end as it was queued. */
  async rows(): Promise<readonly OutputRow[] | undefined> {
    try {
      await this.#whenEnded();
      const { ended } = this.previous;
      if (ended === undefined || ended === "failed" || ended.wasRepeated) return undefined;
      const rows = await this.#work.read();
      this.queued.ended = { rows, wasRepeated: false };
      return rows;
    } catch (error) {
      return await this.#work.failed(error);
    } finally {
      this.queued.ended ??= "failed";
    }
  }
}

/** The step with all tokens that the previous one has chosen; throws BACKEND_STEP if that one failed. */
export function withChosenTokens(step: StepInput, previous: QueuedStep | undefined): StepInput {
  const { previousOutputs, ...known } = step;
  if (previousOutputs === undefined) return step;
  const rows = resultsOf(previous);
  const tokens = step.tokens.map((token, row) =>
    previousOutputs[row] < 0 ? token : chosenToken(rows[previousOutputs[row]]),
  );
  return { ...known, tokens };
}

function resultsOf(previous: QueuedStep | undefined): readonly OutputRow[] {
  const ended = previous?.ended;
  if (ended !== undefined && ended !== "failed") return ended.rows;
  throw new BackendError("BACKEND_STEP", "[step] the previous step, which chooses its tokens, has failed");
}

/** Results after a row without a token are dropped, so that any will do. */
function chosenToken(row: OutputRow): number {
  if (row.kind === "token") return Math.max(0, row.token);
  return row.kind === "candidates" ? row.ids[0] : 0;
}
