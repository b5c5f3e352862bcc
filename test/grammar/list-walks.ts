// Lists of values against the list itself: see list-walks.test.ts for a tenth of them, list-walks.full.test.ts for all.

import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import { Dice } from "../support/dice.js";
import { mixedList, stringList } from "./cases/list-cases.js";
import { embeddedVocabulary } from "./sampling.js";
import { FaultLog, type NamedTest } from "./walking/fault-log.js";
import { listFaults } from "./walking/listed-walk.js";
import { MaskWalker } from "./walking/mask-walker.js";
import { mutations } from "./walking/mutations.js";
import { alphabetOf } from "./walking/short-texts.js";
import { BYTE_VOCABULARY, cutVocabulary } from "./walking/test-vocabulary.js";

const CUT_TOKENS = 150;
const MUTATIONS = 12;
/** A walk over 4,096 tokens takes longer: every so many-th list. */
const EMBEDDED_EVERY = 10;

/** The texts that a list of values allows are its values as JSON.stringify writes them. */
async function check(log: FaultLog, values: readonly unknown[], seed: number): Promise<void> {
  const dice = new Dice(seed);
  const texts = values.map((value) => Buffer.from(JSON.stringify(value)));
  const grammar = compileGrammar({ kind: "schema", schema: { enum: values } });
  const vocabularies = [
    BYTE_VOCABULARY,
    cutVocabulary(texts, dice, CUT_TOKENS),
    ...(seed % EMBEDDED_EVERY === 0 ? [await embeddedVocabulary()] : []),
  ];
  for (const vocabulary of vocabularies) {
    const faults = listFaults(new MaskWalker(grammar, vocabulary), texts);
    if (faults.length > 0) log.add({ form: values, vocabulary: vocabulary.size, faults });
  }
  const walker = new MaskWalker(grammar);
  const listed = new Set(texts.map((text) => text.toString("latin1")));
  const alphabet = alphabetOf(texts.map((text) => text.toString()));
  for (const text of texts) {
    for (const changed of [text, ...mutations(text, alphabet, dice, MUTATIONS)]) {
      const expected = listed.has(Buffer.from(changed).toString("latin1"));
      if (walker.acceptsTwice(changed) !== expected)
        log.add({ form: values, text: Buffer.from(changed).toString(), accepted: !expected });
    }
  }
}

export function listWalks({
  strings,
  mixed,
}: {
  readonly strings: number;
  readonly mixed: number;
}): readonly NamedTest[] {
  const checkAll = async (lists: readonly (readonly unknown[])[]): Promise<void> => {
    const faults = new FaultLog();
    for (const [seed, values] of lists.entries()) await faults.guard(values, () => check(faults, values, seed));
    faults.expectNone();
  };
  return [
    [
      `${strings} lists of strings`,
      () => checkAll(Array.from({ length: strings }, (_, seed) => stringList(new Dice(seed)))),
    ],
    [
      `${mixed} lists of numbers, words, objects and lists`,
      () => checkAll(Array.from({ length: mixed }, (_, seed) => mixedList(new Dice(1_000_000 + seed)))),
    ],
    [
      "the lists of defect 26",
      () =>
        checkAll([
          ["Jan", "Jun", "Jul"],
          ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"],
        ]),
    ],
  ];
}
