// Numbers between bounds against exact arithmetic: see number-walks.test.ts for a tenth of them, number-walks.full.test.ts
// for all. For each: every text of up to 6 bytes over the digits of its bounds, walks over the masks with several
// vocabularies, and each text of a walk with one byte changed.

import type { GrammarError } from "../../src/errors.js";
import type { CompiledGrammar } from "../../src/grammar/automaton/compiled-grammar.js";
import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import { Dice } from "../support/dice.js";
import { multipleSchema, NumberJudge, type NumberSchema, numberSchema, type Verdict } from "./cases/number-cases.js";
import { embeddedVocabulary } from "./sampling.js";
import { FaultLog, type NamedTest } from "./walking/fault-log.js";
import { MaskWalker } from "./walking/mask-walker.js";
import { mutations } from "./walking/mutations.js";
import { acceptedTexts } from "./walking/short-texts.js";
import { cutVocabulary } from "./walking/test-vocabulary.js";

const SHORT_BYTES = 6;
const MUTATIONS = 10;
const MUTANTS = [..."0123456789-+.eE "].map((character) => character.charCodeAt(0));

/** The digits that occur in the form, with the ones beside them as far as there is room, and all that makes a number. */
function alphabetOf(schema: NumberSchema, mostDigits: number): readonly string[] {
  const bounds = Object.values(schema)
    .filter((value) => typeof value === "number")
    .map((value) => BigInt(Math.trunc(Math.abs(value))).toString() + JSON.stringify(value));
  const digits = new Set([..."0", ...bounds.join(""), ..."1952"].filter((character) => /\d/.test(character)));
  return [...[...digits].slice(0, mostDigits), "-", ".", "e"];
}

/** All JSON numbers of up to so many characters over an alphabet. */
function shortNumbers(alphabet: readonly string[], maxBytes: number): readonly string[] {
  const digits = alphabet.filter((character) => /\d/.test(character));
  const strings = [[""]];
  for (let length = 1; length <= maxBytes; length++)
    strings.push((strings[length - 1] as string[]).flatMap((text) => digits.map((digit) => text + digit)));
  const some = (most: number): readonly string[] => strings.slice(1, Math.max(0, most) + 1).flat();
  const found: string[] = [];
  for (const sign of ["", "-"]) {
    for (const whole of some(maxBytes - sign.length).filter((text) => text === "0" || !text.startsWith("0"))) {
      const left = maxBytes - sign.length - whole.length;
      for (const fraction of ["", ...some(left - 1).map((text) => `.${text}`)]) {
        const start = sign + whole + fraction;
        found.push(
          start,
          ...["e", "e-"].flatMap((mark) =>
            some(maxBytes - start.length - mark.length).map((text) => start + mark + text),
          ),
        );
      }
    }
  }
  return found;
}

class NumberCase {
  readonly schema: NumberSchema;
  readonly #judge: NumberJudge;
  readonly #walker: MaskWalker;
  readonly #faults: FaultLog;

  constructor(schema: NumberSchema, grammar: CompiledGrammar, faults: FaultLog) {
    this.schema = schema;
    this.#faults = faults;
    this.#judge = new NumberJudge(schema);
    this.#walker = new MaskWalker(grammar);
  }

  compare(text: string, accepted: boolean): void {
    const verdict = this.#judge.verdict(text);
    if (isWrong(verdict, accepted)) this.#faults.add({ form: this.schema, text, accepted, verdict });
  }

  shortTexts(mostDigits: number): void {
    const alphabet = alphabetOf(this.schema, mostDigits);
    const accepted = acceptedTexts(
      this.#walker.start(),
      alphabet.map((character) => character.charCodeAt(0)),
      SHORT_BYTES,
    );
    for (const text of shortNumbers(alphabet, SHORT_BYTES)) {
      const isAccepted = accepted.delete(text);
      // A number with an exponent may always be refused.
      if (isAccepted || !text.includes("e")) this.compare(text, isAccepted);
    }
    // What is left is no number at all.
    for (const text of accepted) this.compare(text, true);
  }

  async walks(dice: Dice, count: number, withEmbedded: boolean): Promise<void> {
    const texts = Array.from({ length: Math.ceil(count / 2) }, () => this.#walker.walk(dice));
    const cut = new MaskWalker(this.#walker.grammar, cutVocabulary(texts, dice, 60));
    const checked = new Dice(count);
    for (let index = 0; index < Math.floor(count / 2); index++) {
      texts.push(
        cut.walk(dice, {
          visit: (matcher, allowed) => {
            if (checked.below(8) > 0) return;
            const faults = cut.maskFaults(matcher, allowed);
            if (faults.length > 0) this.#faults.add({ form: this.schema, faults });
          },
        }),
      );
    }
    if (withEmbedded) texts.push(new MaskWalker(this.#walker.grammar, await embeddedVocabulary()).walk(dice));
    for (const bytes of texts) {
      const text = Buffer.from(bytes).toString();
      if (!this.#walker.acceptsTwice(bytes))
        this.#faults.add({ form: this.schema, text, accepted: false, walked: true });
      this.compare(text, true);
      for (const changed of mutations(bytes, MUTANTS, dice, MUTATIONS))
        this.compare(Buffer.from(changed).toString(), this.#walker.accepts(changed));
    }
  }
}

function isWrong(verdict: Verdict, accepted: boolean): boolean {
  return verdict !== "either" && accepted !== (verdict === "accept");
}

/** Whether something can be written at all: whole numbers near the bounds, and multiples there. */
function isSatisfiable(schema: NumberSchema): boolean {
  const judge = new NumberJudge(schema);
  const { multipleOf: step = schema.type === "integer" ? 1 : undefined } = schema;
  const bounds = [schema.minimum, schema.maximum, schema.exclusiveMinimum, schema.exclusiveMaximum].filter(
    (value) => value !== undefined,
  );
  const tried = bounds.flatMap((bound) => {
    const grid = step === undefined ? [] : [-1, 0, 1, 2].map((turn) => (Math.floor(bound / step) + turn) * step);
    return [bound, ...grid];
  });
  return (
    bounds.length < 2 ||
    [...tried, ((bounds[0] as number) + (bounds[1] as number)) / 2].some(
      (value) => judge.verdict(String(value)) !== "refuse",
    )
  );
}

async function check(
  faults: FaultLog,
  schema: NumberSchema,
  seed: number,
  { walks, digits }: NumberWalkCounts,
): Promise<void> {
  let grammar: CompiledGrammar;
  try {
    grammar = compileGrammar({ kind: "schema", schema });
  } catch (error) {
    // Nothing lies between the bounds, or nothing that can be written.
    const { code, message } = error as GrammarError;
    if (code !== "GRAMMAR_INVALID" || isSatisfiable(schema)) faults.add({ form: schema, refused: message });
    return;
  }
  const number = new NumberCase(schema, grammar, faults);
  await faults.guard(schema, async () => {
    number.shortTexts(digits);
    await number.walks(new Dice(seed), walks, seed % 5 === 0);
  });
}

export interface NumberWalkCounts {
  readonly bounds: number;
  readonly multiples: number;
  readonly walks: number;
  /** Different ones in short texts: their number grows with its sixth power. */
  readonly digits: number;
}

export function numberWalks(counts: NumberWalkCounts): readonly NamedTest[] {
  const { bounds, multiples } = counts;
  const checkAll = async (schemas: readonly NumberSchema[]): Promise<void> => {
    const faults = new FaultLog();
    for (const [seed, schema] of schemas.entries()) await check(faults, schema, seed, counts);
    faults.expectNone();
  };
  return [
    [`${bounds} bounds`, () => checkAll(Array.from({ length: bounds }, (_, seed) => numberSchema(new Dice(seed))))],
    [
      `${multiples} multiples`,
      () => checkAll(Array.from({ length: multiples }, (_, seed) => multipleSchema(new Dice(2_000_000 + seed)))),
    ],
    [
      "the bounds of defect 26",
      () =>
        checkAll([
          { type: "number", minimum: 1, maximum: 1000 },
          { type: "integer", minimum: 1, maximum: 1000 },
        ]),
    ],
  ];
}
