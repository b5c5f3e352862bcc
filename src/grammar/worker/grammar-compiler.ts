// Grammars for one vocabulary. They are compiled and followed in workers: a new one goes where nothing is followed, so that
// a text on its way waits for no compilation as long as there are threads. A grammar that is not compiled soon goes to a
// worker for such alone, where a short queue of them takes turns: it holds up nobody but its like.

import { createHash } from "node:crypto";
import { GrammarError, ServingError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import { optionalCount, optionalSignal, refuseUnknownKeys } from "../../options.js";
import { unlessAborted } from "../../worker/unless-aborted.js";
import { withControlTokens } from "../control-tokens.js";
import { Grammar } from "./grammar.js";
import { GrammarCache } from "./grammar-cache.js";
import { GrammarHome, type HomeLimits } from "./grammar-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";
import { type PackedVocabulary, packVocabulary, type VocabularyTokenizer } from "../automaton/packed-vocabulary.js";

export interface GrammarCompilerOptions {
  /** Of the model's logits, where these are more than the tokenizer's tokens. */
  readonly vocabularySize?: number;
  /** The most threads, without the one for slow grammars; they start when they are needed. A vocabulary of 150,000 tokens takes some 20 MB in each. */
  readonly threads?: number;
  /** How long most grammars take at most; the others wait for a thread of their own. */
  readonly quickCompileMs?: number;
  /** One that takes longer is refused. */
  readonly compileMs?: number;
  /** For the mask of one token. */
  readonly maskDeadlineMs?: number;
}

const OPTIONS = [
  "vocabularySize",
  "threads",
  "quickCompileMs",
  "compileMs",
  "maskDeadlineMs",
] as const satisfies readonly (keyof GrammarCompilerOptions)[];
const PLACE = "grammar";
const DEFAULTS = { threads: 3, quickCompileMs: 60, compileMs: 2000, maskDeadlineMs: 2000 } as const;
/** A grammar is followed where it was compiled, up to so many texts; then it is sent to others, too. */
const SHARED_TEXTS = 8;
/** Slow grammars that wait for their thread. All of them together take half a minute at most. */
const MAX_SLOW = 12;

export class GrammarCompiler implements AsyncDisposable {
  readonly #tokenizer: VocabularyTokenizer;
  readonly #vocabularySize: number;
  readonly #threads: number;
  readonly #limits: HomeLimits;
  readonly #quickCompileMs: number;
  readonly #homes: GrammarHome[] = [];
  #slowHome: GrammarHome | undefined;
  /** By what was asked. */
  readonly #known = new GrammarCache<Grammar>();
  readonly #lifetime = new Lifetime("a grammar compiler");
  #vocabulary: Promise<PackedVocabulary> | undefined;
  #grammars = 0;
  #texts = 0;

  constructor(tokenizer: VocabularyTokenizer, options: GrammarCompilerOptions = {}) {
    refuseUnknownKeys(PLACE, options, OPTIONS);
    const count = (name: keyof typeof DEFAULTS, min: number, max: number): number =>
      optionalCount(PLACE, name, options[name], min, max) ?? DEFAULTS[name];
    this.#tokenizer = tokenizer;
    this.#vocabularySize =
      optionalCount(PLACE, "vocabularySize", options.vocabularySize, 1, 2 ** 26) ?? tokenizer.vocabularySize;
    this.#threads = count("threads", 1, 16);
    this.#quickCompileMs = count("quickCompileMs", 1, 600_000);
    this.#limits = { compileMs: count("compileMs", 1, 600_000), maskDeadlineMs: count("maskDeadlineMs", 1, 600_000) };
  }

  /** Threads started so far, counting the ones that replaced others. */
  get threadsStarted(): number {
    return this.#allHomes().reduce((sum, home) => sum + home.threadsStarted, 0);
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
    await Promise.all(this.#allHomes().map((home) => home[Symbol.asyncDispose]()));
  }

  async #read(given: GrammarSpec): Promise<Grammar> {
    const spec = withControlTokens(this.#tokenizer, given);
    this.#vocabulary ??= packVocabulary(this.#tokenizer, this.#vocabularySize);
    const vocabulary = await this.#vocabulary;
    if (vocabulary.endTokens.length === 0) {
      throw new GrammarError(
        "GRAMMAR_INVALID",
        "[grammar] expected a vocabulary with a token that ends a text, found none; the model cannot be kept to a grammar",
      );
    }
    this.#lifetime.assertAlive();
    const id = this.#grammars++;
    const home = await this.#compiled(vocabulary, id, spec);
    const chooseHome = (): GrammarHome =>
      home === this.#slowHome || home.texts < SHARED_TEXTS ? home : this.#chooseHome(vocabulary);
    return new Grammar({
      id,
      spec,
      chooseHome,
      slowHome: () => this.#slow(vocabulary),
      maskWords: Math.ceil(vocabulary.size / 32),
      nextText: () => this.#texts++,
    });
  }

  /** The worker that compiled it. */
  async #compiled(vocabulary: PackedVocabulary, id: number, spec: GrammarSpec): Promise<GrammarHome> {
    const home = this.#chooseHome(vocabulary);
    try {
      await home.compile(id, spec);
      return home;
    } catch (error) {
      if (!(error instanceof GrammarError && error.details["limit"] === "compileMs")) throw error;
    }
    this.#lifetime.assertAlive();
    const slow = this.#slow(vocabulary);
    if (slow.compiling >= MAX_SLOW) throw tooManySlow(slow.compiling * this.#limits.compileMs);
    await slow.compile(id, spec);
    return slow;
  }

  #slow(vocabulary: PackedVocabulary): GrammarHome {
    return (this.#slowHome ??= new GrammarHome(vocabulary, this.#limits));
  }

  #allHomes(): readonly GrammarHome[] {
    return this.#slowHome === undefined ? this.#homes : [...this.#homes, this.#slowHome];
  }

  /** Where nobody waits, if there is such a place or room for another; otherwise where the fewest do. */
  #chooseHome(vocabulary: PackedVocabulary): GrammarHome {
    const load = (home: GrammarHome): number => home.texts + home.compiling;
    const [best] = [...this.#homes].sort((a, b) => load(a) - load(b));
    if (best !== undefined && (load(best) === 0 || this.#homes.length >= this.#threads)) return best;
    const home = new GrammarHome(vocabulary, {
      ...this.#limits,
      compileMs: Math.min(this.#quickCompileMs, this.#limits.compileMs),
    });
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

function tooManySlow(retryAfterMs: number): ServingError {
  return new ServingError(
    "SERVING_QUEUE_FULL",
    `[grammar] expected fewer grammars that take long to compile, and ${MAX_SLOW} wait already; try again later, or simplify it`,
    {
      details: { retryAfterMs },
    },
  );
}
