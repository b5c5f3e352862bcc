// The options for speculative decoding, of every command that generates text.

import type { DraftMode, LoadModelOptions } from "../index.js";
import { DRAFT_MODES } from "../speculation/speculation.js";
import type { OptionTable, OptionValues } from "./option-table.js";

const SECTION = "model";

/** The options that choose drafters. */
export const DRAFT_OPTIONS = {
  draft: {
    kind: "text",
    placeholder: "MODE",
    section: SECTION,
    values: DRAFT_MODES,
    description: `speculative decoding, which does not change the text: ${DRAFT_MODES.join(", ")}`,
    fallback: "auto",
  },
  "draft-model": {
    kind: "path",
    placeholder: "MODEL",
    section: SECTION,
    description: "smaller model of the same vocabulary that drafts, too",
  },
} as const satisfies OptionTable;

/** The values of `DRAFT_OPTIONS`. */
export type DraftValues = OptionValues<typeof DRAFT_OPTIONS>;

/** The options for `loadModel`; those that were not given are left out. */
export function draftOptions({
  draft,
  "draft-model": draftModel,
}: Partial<DraftValues>): Pick<LoadModelOptions, "draft" | "draftModel"> {
  return {
    ...(draft === undefined ? {} : { draft: draft as DraftMode }),
    ...(draftModel === undefined ? {} : { draftModel }),
  };
}
