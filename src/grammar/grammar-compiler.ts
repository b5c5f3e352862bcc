// Grammars for one vocabulary. They are read, compiled and followed in threads (homes): a new one goes where nothing is
// followed, so that whoever writes to a grammar already waits for no compilation as long as there are threads; and what
// kills a thread costs the others the time to be taught again, not their text.

import { createHash } from "node:crypto";
import { GrammarError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import { optionalCount, optionalSignal, refuseUnknownKeys } from "../options.js";
import { unlessAborted } from "../worker/unless-aborted.js";
import { type ForcedTokens, splitForced } from "./forced-tokens.js";
import { Grammar } from "./grammar.js";
import { GrammarCache } from "./grammar-cache.js";
import { GrammarHome, type HomeLimits } from "./grammar-home.js";
import type { GrammarSource, GrammarSpec } from "./grammar-spec.js";
import { type PackedVocabulary, packVocabulary, type VocabularyTokenizer } from "./packed-vocabulary.js";

export interface GrammarCompilerOptions {
  /** Of the model's logits, where these are more than the tokenizer's tokens. */
  readonly vocabularySize?: number;
  /** The most threads; they start when they are needed. A vocabulary of 150,000 tokens takes some 100 MB in each. */
  readonly threads?: number;
  readonly compileDeadlineMs?: number;
  /** For the mask of one token. */
  readonly maskDeadlineMs?: number;
  /** Of the library's memory in one thread. */
  readonly maxMemoryBytes?: number;
}

const OPTIONS = ["vocabularySize", "threads", "compileDeadlineMs", "maskDeadlineMs", "maxMemoryBytes"] as const satisfies readonly (keyof GrammarCompilerOptions)[];
const PLACE = "grammar";
const DEFAULTS = { threads: 3, compileDeadlineMs: 5000, maskDeadlineMs: 2000, maxMemoryBytes: 512 * 2 ** 20 } as const;
/** A grammar is followed where it was compiled, up to so many texts; then others are taught it, too. */
const SHARED_TEXTS = 8;

export class GrammarCompiler implements AsyncDisposable {
  readonly #tokenizer: VocabularyTokenizer;
  readonly #vocabularySize: number;
  readonly #threads: number;
  readonly #limits: HomeLimits;
  readonly #homes: GrammarHome[] = [];
  /** By what was asked and by the text that it became. */
  readonly #known = new GrammarCache<Grammar>();
  readonly #lifetime = new Lifetime("a grammar compiler");
  #vocabulary: Promise<PackedVocabulary> | undefined;
  #grammars = 0;
  #texts = 0;

  constructor(tokenizer: VocabularyTokenizer, options: GrammarCompilerOptions = {}) {
    refuseUnknownKeys(PLACE, options, OPTIONS);
    const count = (name: keyof typeof DEFAULTS, min: number, max: number): number => optionalCount(PLACE, name, options[name], min, max) ?? DEFAULTS[name];
    this.#tokenizer = tokenizer;
    this.#vocabularySize = optionalCount(PLACE, "vocabularySize", options.vocabularySize, 1, 2 ** 26) ?? tokenizer.vocabularySize;
    this.#threads = count("threads", 1, 16);
    this.#limits = {
      compileDeadlineMs: count("compileDeadlineMs", 1, 600_000),
      maskDeadlineMs: count("maskDeadlineMs", 1, 600_000),
      maxWasmBytes: count("maxMemoryBytes", 2 ** 25, 2 ** 31),
    };
  }

  /** Threads started so far, counting the ones that replaced others. */
  get threadsStarted(): number {
    return this.#homes.reduce((sum, home) => sum + home.threadsStarted, 0);
  }

  /** Rejects with a GrammarError where it cannot be understood or followed, or with the signal's reason. */
  async compile(spec: GrammarSpec, signal?: AbortSignal): Promise<Grammar> {
    this.#lifetime.assertAlive();
    optionalSignal(PLACE, "signal", signal)?.throwIfAborted();
    const asked = keyOf(spec);
    return unlessAborted(this.#known.get(asked) ?? this.#known.set(asked, this.#read(spec)), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#lifetime.end();
    await Promise.all(this.#homes.map((home) => home[Symbol.asyncDispose]()));
  }

  /** Different words for the same grammar come to one. */
  async #read(spec: GrammarSpec): Promise<Grammar> {
    const split = splitForced(this.#tokenizer, spec);
    this.#vocabulary ??= packVocabulary(this.#tokenizer, this.#vocabularySize);
    const vocabulary = await this.#vocabulary;
    if (vocabulary.endTokens.length === 0) {
      throw new GrammarError("GRAMMAR_INVALID", "[grammar] expected a vocabulary with a token that ends a text, found none; the model cannot be kept to a grammar");
    }
    this.#lifetime.assertAlive();
    const source = await this.#chooseHome(vocabulary).convert(split.spec);
    this.#lifetime.assertAlive();
    const key = keyOf([source, split.forced]);
    return this.#known.get(key) ?? this.#known.set(key, this.#make(vocabulary, source, split.forced));
  }

  async #make(vocabulary: PackedVocabulary, source: GrammarSource, forced: ForcedTokens): Promise<Grammar> {
    const home = this.#chooseHome(vocabulary);
    const id = this.#grammars++;
    await home.compile(id, source);
    const { endTokens, size } = vocabulary;
    const chooseHome = (): GrammarHome => (home.texts < SHARED_TEXTS ? home : this.#chooseHome(vocabulary));
    return new Grammar({ id, source, chooseHome, forced, endTokens, maskWords: Math.ceil(size / 32), nextText: () => this.#texts++ });
  }

  /** Where nobody waits, if there is such a place or room for another; otherwise where the fewest do. */
  #chooseHome(vocabulary: PackedVocabulary): GrammarHome {
    const load = (home: GrammarHome): number => home.texts + home.compiling;
    const [best] = [...this.#homes].sort((a, b) => load(a) - load(b));
    if (best !== undefined && (load(best) === 0 || this.#homes.length >= this.#threads)) return best;
    const home = new GrammarHome(vocabulary, this.#limits);
    this.#homes.push(home);
    return home;
  }
}

/** Undefined for what has no text: it is not JSON, and converting it will say so. */
function keyOf(value: unknown): string | undefined {
  try {
    return createHash("sha256").update(JSON.stringify(value)).digest("base64");
  } catch {
    return undefined;
  }
}
