// Nested schemas against ajv and the documents: see schema-walks.test.ts for a tenth of them, schema-walks.full.test.ts
// for all. For each: every text of up to 6 bytes over bytes that occur in it, walks over the masks with several
// vocabularies, each text of a walk with one byte changed, and values that ajv finds right.

import { expect } from "vitest";
import type { GrammarError } from "../../src/errors.js";
import type { CompiledGrammar } from "../../src/grammar/automaton/compiled-grammar.js";
import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import type { GrammarMatcher } from "../../src/grammar/automaton/matcher.js";
import { Dice } from "../support/dice.js";
import { type JsonSchema, SchemaCases } from "./cases/schema-cases.js";
import { InstanceDrawer } from "./cases/schema-instance.js";
import { SchemaJudge, writtenLoosely } from "./cases/schema-judge.js";
import { embeddedVocabulary } from "./sampling.js";
import { FaultLog, type NamedTest } from "./walking/fault-log.js";
import { MaskWalker } from "./walking/mask-walker.js";
import { mutations } from "./walking/mutations.js";
import { shortJson } from "./walking/short-json.js";
import { acceptedTexts } from "./walking/short-texts.js";
import { cutVocabulary } from "./walking/test-vocabulary.js";

const SHORT_BYTES = 6;
const PUNCTUATION = [...'{}[]",: '];
const MOST_LETTERS = 5;
const MUTATIONS = 10;
const CUT_TOKENS = 120;
/** Values that are tried for each schema; about half of them satisfy it. */
const INSTANCES = 60;

class SchemaCase {
  readonly #schema: JsonSchema;
  readonly #judge: SchemaJudge;
  readonly #walker: MaskWalker;
  readonly #faults: FaultLog;

  constructor(schema: JsonSchema, grammar: CompiledGrammar, faults: FaultLog) {
    this.#schema = schema;
    this.#judge = new SchemaJudge(schema);
    this.#walker = new MaskWalker(grammar);
    this.#faults = faults;
  }

  async check(dice: Dice, walks: number, withEmbedded: boolean): Promise<void> {
    const values = this.#instances(dice);
    const texts = Array.from({ length: Math.ceil(walks / 2) }, () => this.#walker.walk(dice));
    const cut = new MaskWalker(this.#walker.grammar, cutVocabulary([...values, ...texts], dice, CUT_TOKENS));
    for (const text of values) cut.retrace(text, dice);
    const checked = new Dice(walks);
    const visit = (matcher: GrammarMatcher, allowed: readonly number[]): void => {
      if (checked.below(20) > 0) return;
      const faults = cut.maskFaults(matcher, allowed);
      if (faults.length > 0) this.#faults.add({ form: this.#schema, faults });
    };
    for (let index = 0; index < Math.floor(walks / 2); index++) texts.push(cut.walk(dice, { visit }));
    if (withEmbedded) texts.push(new MaskWalker(this.#walker.grammar, await embeddedVocabulary()).walk(dice));
    this.#shortTexts(texts);
    this.#mutated(texts, dice);
  }

  /** The ones that have to be accepted, and are. */
  #instances(dice: Dice): readonly Uint8Array[] {
    const drawer = new InstanceDrawer(this.#schema, dice);
    const accepted: Uint8Array[] = [];
    for (let count = 0; count < INSTANCES; count++) {
      const bytes = Buffer.from(writtenLoosely(drawer.draw(), () => dice.below(4) === 0));
      if (this.#compare(bytes, this.#walker.acceptsTwice(bytes)) === "accept") accepted.push(bytes);
    }
    return accepted;
  }

  #shortTexts(texts: readonly Uint8Array[]): void {
    const letters = lettersOf(texts);
    const alphabet = [...PUNCTUATION, ...letters];
    const accepted = acceptedTexts(
      this.#walker.start(),
      alphabet.map((character) => character.charCodeAt(0)),
      SHORT_BYTES,
    );
    for (const text of shortJson(alphabet, SHORT_BYTES)) this.#compare(Buffer.from(text), accepted.delete(text));
    for (const text of accepted) this.#compare(Buffer.from(text), true);
  }

  #mutated(texts: readonly Uint8Array[], dice: Dice): void {
    for (const bytes of texts) {
      this.#compare(bytes, true);
      if (!this.#walker.acceptsTwice(bytes))
        this.#faults.add({ form: this.#schema, text: Buffer.from(bytes).toString(), accepted: false, walked: true });
      const alphabet = [...bytes, ...Buffer.from(PUNCTUATION.join(""))];
      for (const changed of mutations(bytes, alphabet, dice, MUTATIONS))
        this.#compare(changed, this.#walker.accepts(changed));
    }
  }

  /** The verdict, if it agrees. */
  #compare(bytes: Uint8Array, accepted: boolean): string | undefined {
    const verdict = this.#judge.verdict(bytes);
    if (verdict === "either" || accepted === (verdict === "accept")) return verdict;
    this.#faults.add({ form: this.#schema, text: Buffer.from(bytes).toString(), accepted, verdict });
    return undefined;
  }
}

/** The characters of one byte that the texts use most beside punctuation. */
function lettersOf(texts: readonly Uint8Array[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const text of texts) {
    for (const byte of text) {
      const character = String.fromCharCode(byte);
      if (byte > 0x20 && byte < 0x7f && character !== "\\" && !PUNCTUATION.includes(character))
        counts.set(character, (counts.get(character) ?? 0) + 1);
    }
  }
  return [...counts]
    .sort((one, other) => other[1] - one[1])
    .slice(0, MOST_LETTERS)
    .map(([character]) => character);
}

export interface SchemaWalkCounts {
  readonly schemas: number;
  readonly walks: number;
  /** Of the schemas, in hundredths: some unions cannot be decided, some schemas nothing satisfies. */
  readonly mostRefused: number;
}

export function schemaWalks({ schemas, walks, mostRefused }: SchemaWalkCounts): readonly NamedTest[] {
  const run = async (): Promise<void> => {
    const faults = new FaultLog();
    const refusals: string[] = [];
    let accepted = 0;
    for (let seed = 0; accepted < schemas && refusals.length < schemas; seed++) {
      const schema = SchemaCases.draw(new Dice(4_000_000 + seed));
      try {
        const grammar = compileGrammar({ kind: "schema", schema });
        accepted++;
        await faults.guard(schema, () =>
          new SchemaCase(schema, grammar, faults).check(new Dice(seed), walks, seed % 5 === 0),
        );
      } catch (error) {
        if ((error as GrammarError).code !== "GRAMMAR_INVALID") faults.add({ form: schema, thrown: String(error) });
        refusals.push((error as GrammarError).message);
      }
    }
    faults.expectNone();
    expect({ accepted, refusals: (100 * refusals.length) / schemas <= mostRefused ? [] : refusals }).toEqual({
      accepted: schemas,
      refusals: [],
    });
  };
  return [[`${schemas} schemas`, run]];
}
