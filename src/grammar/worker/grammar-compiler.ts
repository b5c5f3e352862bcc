// Compiles grammars for one vocabulary. They are compiled and matched in workers: a new grammar goes to an idle worker,
// so that matching a text waits for no compilation as long as there are threads. A grammar that takes long to compile
// goes to a separate worker with a short queue, where it delays only other slow grammars.

import { createHash } from "node:crypto";
import { GrammarError, ServingError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import { optionalCount, optionalSignal, refuseUnknownKeys } from "../../options.js";
import { unlessAborted } from "../../worker/unless-aborted.js";
import { withControlTokens } from "../control-tokens.js";
import { Grammar } from "./grammar.js";
import { GrammarCache } from "./grammar-cache.js";
import { GrammarWorker, type GrammarWorkerLimits } from "./grammar-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";
import { type PackedVocabulary, packVocabulary, type VocabularyTokenizer } from "../automaton/packed-vocabulary.js";

/** The threads and time limits of a compiler. */
export interface GrammarCompilerOptions {
  /** Number of the model's logits, if it exceeds the number of the tokenizer's tokens. */
  readonly vocabularySize?: number;
  /**
   * Most threads, besides the one for slow grammars; they start when they are needed. A vocabulary of 150,000 tokens
   * takes about 20 MB in each.
   */
  readonly threads?: number;
  /** Compile time after which a grammar goes to the worker for slow grammars. */
  readonly quickCompileMs?: number;
  /** Compile time after which a grammar is refused. */
  readonly compileMs?: number;
  /** Time limit for the mask of one token. */
  readonly maskDeadlineMs?: number;
  /** Time limit for the masks along a draft; they are optional, so that a step does not wait longer for them. */
  readonly pathMs?: number;
}

const OPTIONS = [
  "vocabularySize",
  "threads",
  "quickCompileMs",
  "compileMs",
  "maskDeadlineMs",
  "pathMs",
] as const satisfies readonly (keyof GrammarCompilerOptions)[];
const PLACE = "grammar";
const DEFAULTS = { threads: 3, quickCompileMs: 60, compileMs: 2000, maskDeadlineMs: 2000, pathMs: 2 } as const;
/**
 * A grammar is matched in the worker that compiled it for up to this many texts; further ones use other workers, too.
 */
const SHARED_TEXTS = 8;
/** Slow grammars that may wait for their worker; together they take half a minute at most. */
const MAX_SLOW = 12;

/** Compiles grammars for one vocabulary. */
export class GrammarCompiler implements AsyncDisposable {
  readonly #tokenizer: VocabularyTokenizer;
  readonly #vocabularySize: number;
  readonly #threads: number;
  readonly #limits: GrammarWorkerLimits;
  readonly #quickCompileMs: number;
  readonly #workers: GrammarWorker[] = [];
  #slowWorker: GrammarWorker | undefined;
  /** Compiled grammars by the key of their specification. */
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
    this.#limits = {
      compileMs: count("compileMs", 1, 600_000),
      maskDeadlineMs: count("maskDeadlineMs", 1, 600_000),
      pathMs: count("pathMs", 0, 600_000),
    };
  }

  /** Threads started so far, including replacements. */
  get threadsStarted(): number {
    return this.#allWorkers().reduce((sum, worker) => sum + worker.threadsStarted, 0);
  }

  /**
   * Compiles a grammar, or finds it in the cache. Rejects with a GrammarError if it is invalid or exceeds a limit, or
   * with the signal's reason.
   */
  async compile(spec: GrammarSpec, signal?: AbortSignal): Promise<Grammar> {
    this.#lifetime.assertAlive();
    optionalSignal(PLACE, "signal", signal)?.throwIfAborted();
    const asked = keyOf(spec);
    return unlessAborted(this.#known.get(asked) ?? this.#known.set(asked, this.#read(spec)), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#lifetime.end();
    await Promise.all(this.#allWorkers().map((worker) => worker[Symbol.asyncDispose]()));
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
    const worker = await this.#compiled(vocabulary, id, spec);
    const chooseWorker = (): GrammarWorker =>
      worker === this.#slowWorker || worker.texts < SHARED_TEXTS ? worker : this.#chooseWorker(vocabulary);
    return new Grammar({
      id,
      spec,
      chooseWorker,
      slowWorker: () => this.#slow(vocabulary),
      maskWords: Math.ceil(vocabulary.size / 32),
      nextText: () => this.#texts++,
    });
  }

  /** Compiles a grammar; resolves with the worker that did. */
  async #compiled(vocabulary: PackedVocabulary, id: number, spec: GrammarSpec): Promise<GrammarWorker> {
    const worker = this.#chooseWorker(vocabulary);
    try {
      await worker.compile(id, spec);
      return worker;
    } catch (error) {
      if (!(error instanceof GrammarError && error.details["limit"] === "compileMs")) throw error;
    }
    this.#lifetime.assertAlive();
    const slow = this.#slow(vocabulary);
    if (slow.compiling >= MAX_SLOW) throw tooManySlow(slow.compiling * this.#limits.compileMs);
    await slow.compile(id, spec);
    return slow;
  }

  #slow(vocabulary: PackedVocabulary): GrammarWorker {
    return (this.#slowWorker ??= new GrammarWorker(vocabulary, this.#limits));
  }

  #allWorkers(): readonly GrammarWorker[] {
    return this.#slowWorker === undefined ? this.#workers : [...this.#workers, this.#slowWorker];
  }

  /** An idle worker, or a new one if more are allowed, or the one with the least load. */
  #chooseWorker(vocabulary: PackedVocabulary): GrammarWorker {
    const load = (worker: GrammarWorker): number => worker.texts + worker.compiling;
    const [best] = [...this.#workers].sort((a, b) => load(a) - load(b));
    if (best !== undefined && (load(best) === 0 || this.#workers.length >= this.#threads)) return best;
    const worker = new GrammarWorker(vocabulary, {
      ...this.#limits,
      compileMs: Math.min(this.#quickCompileMs, this.#limits.compileMs),
    });
    this.#workers.push(worker);
    return worker;
  }
}

/** The cache key of a specification; undefined if it has no JSON text, which compiling it reports. */
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
