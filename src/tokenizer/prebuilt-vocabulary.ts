// The tables of a vocabulary that another thread has built, from which a tokenizer is made without decoding the file's
// arrays again.

import type { MergeTables } from "./merge-table.js";
import type { TokenizerArrays } from "./tokenizer-metadata.js";
import type { VocabularyTables } from "./vocabulary.js";

/** The tables of a vocabulary, as another thread has built them. */
export interface PrebuiltVocabulary {
  readonly vocabulary: VocabularyTables;
  /** Undefined if the file has no merges. */
  readonly merges: MergeTables | undefined;
}

/** Tables that have the lengths of the file's arrays; others are of another file, or of an earlier state of this one. */
export function usableVocabulary(
  { tokens, merges }: TokenizerArrays,
  prebuilt: PrebuiltVocabulary | undefined,
): PrebuiltVocabulary | undefined {
  const isUsable =
    prebuilt?.vocabulary.attributes.length === tokens.length && prebuilt.merges?.lefts.length === merges?.length;
  return isUsable ? prebuilt : undefined;
}
