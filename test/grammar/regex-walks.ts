// Regular expressions against RegExp: see regex-walks.test.ts for a tenth of them, regex-walks.full.test.ts for all. For
// each, as an answer's whole form and as `pattern` of a JSON string: every text of up to 6 bytes over bytes that occur in
// it, walks over the masks with several vocabularies, and each text of a walk with one byte changed.

import { compileGrammar } from "../../src/grammar/compile-grammar.js";
import type { GrammarMatcher } from "../../src/grammar/automaton/matcher.js";
import type { GrammarSpec } from "../../src/grammar/grammar-spec.js";
import { Dice } from "../support/dice.js";
import { anchored, charactersOf, regexBody } from "./cases/regex-cases.js";
import { RegexSampler } from "./cases/regex-sample.js";
import { embeddedVocabulary } from "./sampling.js";
import { FaultLog, type NamedTest } from "./walking/fault-log.js";
import { MaskWalker } from "./walking/mask-walker.js";
import { decoded, mutations, parsed } from "./walking/mutations.js";
import { acceptedTexts, allTexts, alphabetOf, bytesOfLatin1 } from "./walking/short-texts.js";
import { cutVocabulary } from "./walking/test-vocabulary.js";

const SHORT_BYTES = 6;
const MUTATIONS = 10;
const CUT_TOKENS = 80;
const SAMPLES = 40;
/** RegExp may take long over long texts. */
const JUDGED_CHARACTERS = 120;

type Judge = (bytes: Uint8Array) => "accept" | "refuse" | "either";

/** The whole text has to match. */
function wholeJudge(pattern: string): Judge {
  const expression = new RegExp(`^(?:${pattern})$`, "u");
  return (bytes) => {
    const text = decoded(bytes);
    return text !== undefined && expression.test(text) ? "accept" : "refuse";
  };
}

/** A JSON string whose value has a match somewhere. A character may be spelled in several ways; one of them has to do. */
function stringJudge(pattern: string): Judge {
  const expression = new RegExp(pattern, "u");
  return (bytes) => {
    const text = decoded(bytes);
    // Errors of JSON.parse are slow, and most short texts are no strings.
    const value =
      text !== undefined && text.length > 1 && text.startsWith('"') && text.endsWith('"') ? parsed(text) : undefined;
    if (typeof value !== "string" || !expression.test(value)) return "refuse";
    return text === JSON.stringify(value) ? "accept" : "either";
  };
}

class RegexCase {
  readonly #form: unknown;
  readonly #judge: Judge;
  readonly #walker: MaskWalker;
  readonly #sample: (dice: Dice) => string;
  readonly #alphabet: readonly number[];
  readonly #faults: FaultLog;

  constructor(
    spec: GrammarSpec,
    judge: Judge,
    sample: (dice: Dice) => string,
    alphabet: readonly number[],
    faults: FaultLog,
  ) {
    this.#form = spec.kind === "regex" ? spec.pattern : spec;
    this.#judge = judge;
    this.#walker = new MaskWalker(compileGrammar(spec));
    this.#sample = sample;
    this.#alphabet = alphabet;
    this.#faults = faults;
  }

  shortTexts(mostLetters: number): void {
    const letters = this.#alphabet.slice(0, mostLetters);
    const accepted = acceptedTexts(this.#walker.start(), letters, SHORT_BYTES);
    for (const text of allTexts(letters, SHORT_BYTES)) this.#compare(bytesOfLatin1(text), accepted.has(text));
  }

  async walks(dice: Dice, count: number, withEmbedded: boolean): Promise<void> {
    const wayOut = (): Uint8Array => Buffer.from(this.#sample(dice));
    const texts = Array.from({ length: Math.ceil(count / 2) }, () => this.#walker.walk(dice, { wayOut }));
    const cut = new MaskWalker(this.#walker.grammar, cutVocabulary(texts, dice, CUT_TOKENS));
    const checked = new Dice(count);
    const visit = (matcher: GrammarMatcher, allowed: readonly number[]): void => {
      if (checked.below(12) > 0) return;
      const faults = cut.maskFaults(matcher, allowed);
      if (faults.length > 0) this.#faults.add({ form: this.#form, faults });
    };
    for (let index = 0; index < Math.floor(count / 2); index++) texts.push(cut.walk(dice, { visit, wayOut }));
    if (withEmbedded)
      texts.push(new MaskWalker(this.#walker.grammar, await embeddedVocabulary()).walk(dice, { wayOut }));
    for (const bytes of texts) {
      this.#compare(bytes, true);
      if (!this.#walker.acceptsTwice(bytes))
        this.#faults.add({ form: this.#form, text: Buffer.from(bytes).toString(), accepted: false, walked: true });
      for (const changed of mutations(bytes, this.#alphabet, dice, MUTATIONS))
        this.#compare(changed, this.#walker.accepts(changed));
    }
  }

  /** Texts that match are walked over the masks. */
  samples(dice: Dice, texts: readonly string[]): void {
    const matching = texts.map((text) => Buffer.from(text)).filter((bytes) => this.#judge(bytes) === "accept");
    const walkers = [this.#walker, new MaskWalker(this.#walker.grammar, cutVocabulary(matching, dice, CUT_TOKENS))];
    for (const text of matching) for (const walker of walkers) walker.retrace(text, dice);
  }

  #compare(bytes: Uint8Array, accepted: boolean): void {
    if (bytes.length > JUDGED_CHARACTERS) return;
    const verdict = this.#judge(bytes);
    if (verdict === "either" || accepted === (verdict === "accept")) return;
    this.#faults.add({ form: this.#form, text: Buffer.from(bytes).toString(), accepted, verdict });
  }
}

export interface RegexWalkCounts {
  readonly whole: number;
  readonly patterns: number;
  readonly walks: number;
  /** Of the alphabet of short texts: their number grows with its sixth power. */
  readonly letters: number;
}

export function regexWalks({ whole, patterns, walks, letters }: RegexWalkCounts): readonly NamedTest[] {
  const check = async (one: RegexCase, samples: readonly string[], seed: number): Promise<void> => {
    const dice = new Dice(seed);
    one.shortTexts(letters);
    one.samples(dice, samples);
    await one.walks(dice, walks, seed % 5 === 0);
  };
  const asWhole = (faults: FaultLog, pattern: string, seed: number): Promise<void> => {
    const dice = new Dice(seed);
    const sample = (die: Dice): string => RegexSampler.draw(pattern, die);
    const one = new RegexCase(
      { kind: "regex", pattern },
      wholeJudge(pattern),
      sample,
      alphabetOf(charactersOf(pattern, dice)),
      faults,
    );
    return check(
      one,
      Array.from({ length: SAMPLES }, () => sample(dice)),
      seed,
    );
  };
  const asPattern = (faults: FaultLog, pattern: string, seed: number): Promise<void> => {
    const dice = new Dice(seed);
    const alphabet = [0x22, ...alphabetOf(charactersOf(pattern, dice)).slice(0, 4), 0x5c, 0x6e];
    const sample = (die: Dice): string => JSON.stringify(RegexSampler.draw(pattern, die)).slice(1);
    const one = new RegexCase(
      { kind: "schema", schema: { type: "string", pattern } },
      stringJudge(pattern),
      sample,
      [...new Set(alphabet)],
      faults,
    );
    const around = (): string => dice.pick(["", "", "a", "é\\n", "😀"]);
    return check(
      one,
      Array.from({ length: SAMPLES }, () => `"${around()}${sample(dice).slice(0, -1)}${around()}"`),
      seed,
    );
  };

  const checkAll = async (cases: readonly string[], run: typeof asWhole): Promise<void> => {
    const faults = new FaultLog();
    for (const [seed, pattern] of cases.entries()) await faults.guard(pattern, () => run(faults, pattern, seed));
    faults.expectNone();
  };
  const defects = ["^#([A-Fa-f0-9]{6}|[A-Fa-f0-9]{3})$", "[0-9]*[0-9]x"];
  return [
    [
      `${whole} expressions as whole forms`,
      () =>
        checkAll(
          Array.from({ length: whole }, (_, seed) => regexBody(new Dice(seed))),
          asWhole,
        ),
    ],
    [
      `${patterns} patterns of strings`,
      () =>
        checkAll(
          Array.from({ length: patterns }, (_, seed) => patternOf(new Dice(3_000_000 + seed))),
          asPattern,
        ),
    ],
    ["the expressions of defect 26 as whole forms", () => checkAll(defects, asWhole)],
    ["the expressions of defect 26 as patterns of strings", () => checkAll(defects, asPattern)],
  ];
}

function patternOf(dice: Dice): string {
  return anchored(dice, regexBody(dice));
}
