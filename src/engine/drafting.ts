// The drafters of an engine, from its options and from what its plan has.

import type { KvCache } from "../backends/contract.js";
import { OptionError } from "../errors.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import { optionText } from "../options.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import type { BatchDrafter } from "../speculation/drafter.js";
import { type DraftModel, ModelDrafter } from "../speculation/model-drafter.js";
import { NgramDrafter } from "../speculation/ngram-drafter.js";
import { type DraftMode, Speculation } from "../speculation/speculation.js";
import { DraftHeadDrafter } from "./draft-head-drafter.js";

/** What an engine may draft with. */
export interface DraftingOptions {
  /** Which drafters to use; "auto" by default. */
  readonly draft?: DraftMode;
  /** A smaller model that drafts; the engine owns it. */
  readonly draftModel?: DraftModel;
}

/** What the file of a draft model is: a model, a draft head, or not known before it is opened. */
type DraftFileKind = "model" | "head" | "unknown";

const REFUSED_MODES: Readonly<Record<DraftFileKind, readonly DraftMode[]>> = {
  unknown: ["off"],
  model: ["off", "mtp"],
  head: ["off", "ngram"],
};

/** Refuses a mode that would not use the draft model. */
export function refuseDraftMode(where: string, mode: DraftMode | undefined, draftFile: DraftFileKind): void {
  if (mode === undefined || !REFUSED_MODES[draftFile].includes(mode)) return;
  const reason = `there is a ${optionText("draftModel")}`;
  throw new OptionError(
    "OPTION_VALUE",
    `[${where}] ${optionText("draft", mode)} is not possible, because ${reason}; use ${optionText("draft", "auto")}`,
    { details: { option: "draft", found: mode, reason } },
  );
}

/** Whether a plan without a draft model should be able to run the model's draft head: if it can, or in any case. */
export function draftHeadFor(mode: DraftMode = "auto"): boolean | "auto" {
  if (mode === "mtp") return true;
  return mode === "auto" ? "auto" : false;
}

/** The drafters of an engine; undefined if nothing is drafted. */
export function speculationOf(
  plan: ExecutionPlan,
  cache: { readonly pools: BlockPools; readonly kvCache: KvCache },
  { draft = "auto", draftModel }: DraftingOptions,
): Speculation | undefined {
  if (draftModel !== undefined) refuseDraftMode("serve", draft, "model");
  if (draft === "off") return undefined;
  const batchDrafter = batchDrafterOf(plan, cache, draft, draftModel);
  if (draft === "mtp" && batchDrafter === undefined) return undefined;
  return new Speculation({
    ...(draft === "mtp" ? {} : { textDrafter: () => new NgramDrafter() }),
    ...(batchDrafter === undefined ? {} : { batchDrafter }),
  });
}

function batchDrafterOf(
  plan: ExecutionPlan,
  cache: { readonly pools: BlockPools; readonly kvCache: KvCache },
  draft: DraftMode,
  draftModel: DraftModel | undefined,
): BatchDrafter | undefined {
  if (draftModel !== undefined) return new ModelDrafter(draftModel, plan.program.vocabularySize);
  const { draftHead, backend } = plan;
  if (draftHead === undefined || draft === "ngram") return undefined;
  return new DraftHeadDrafter(draftHead, cache, Math.min(backend.maxStepTokens, backend.maxStepOutputs));
}
