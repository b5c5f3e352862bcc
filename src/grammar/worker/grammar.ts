// A compiled grammar, and the constraint that makes one text follow it, a TokenConstraint of engine/serving.ts. The
// next mask is requested as soon as a token is known, so that it is computed while other sequences run.

import { DisposedError, GrammarError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import type { GrammarWorker } from "./grammar-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";

/** What all constraints of one grammar share. */
interface GrammarParts {
  readonly id: number;
  readonly spec: GrammarSpec;
  /** Chooses the worker that matches one more text. */
  readonly chooseWorker: () => GrammarWorker;
  /** The worker for texts with slow masks. */
  readonly slowWorker: () => GrammarWorker;
  readonly maskWords: number;
  /** A unique number for a text. */
  readonly nextText: () => number;
}

/** A mask that takes longer is slow; most take less than a millisecond. */
const SLOW_MASK_MS = 15;
const MAX_SLOW_MASKS = 2;
const LONG_TEXT_TOKENS = 4096;
const MAX_SLOW_TEXTS = 8;

/** A compiled grammar, which makes constraints. */
export class Grammar {
  readonly #parts: GrammarParts;
  #characters: number | undefined;

  constructor(parts: GrammarParts) {
    this.#parts = parts;
  }

  /** Characters of the specification. */
  get characters(): number {
    return (this.#characters ??= JSON.stringify(this.#parts.spec).length);
  }

  /** A constraint for one text; dispose it when the text has ended. */
  constraint(): GrammarConstraint {
    return new GrammarConstraint(this.#parts, []);
  }
}

/** Makes one text follow a grammar. */
export class GrammarConstraint implements Disposable {
  readonly #parts: GrammarParts;
  #worker: GrammarWorker;
  readonly #text: number;
  readonly #tokens: number[];
  readonly #shared: Uint32Array;
  readonly #mask: Uint32Array;
  readonly #lifetime = new Lifetime("a grammar's constraint");
  #sentTokens = 0;
  /** Number of slow masks. */
  #slowMasks = 0;
  #next: Promise<void>;

  constructor(parts: GrammarParts, tokens: readonly number[]) {
    this.#parts = parts;
    this.#text = parts.nextText();
    this.#tokens = [...tokens];
    this.#shared = new Uint32Array(new SharedArrayBuffer(4 * parts.maskWords));
    this.#mask = new Uint32Array(parts.maskWords);
    this.#worker = parts.chooseWorker();
    this.#worker.texts++;
    this.#next = this.#prepare();
    this.#next.catch(() => {});
  }

  /**
   * The mask of the next token, in an array that is overwritten before the one after it. Rejects with a GrammarError.
   */
  async allowed(): Promise<Uint32Array> {
    this.#lifetime.assertAlive();
    await this.#next;
    this.#lifetime.assertAlive();
    return this.#mask;
  }

  accept(token: number): void {
    this.#lifetime.assertAlive();
    this.#tokens.push(token);
    const before = this.#next;
    // Requests are sent one after another, even if the last mask was not awaited.
    this.#next = before.then(() => this.#prepare());
    this.#next.catch(() => {});
  }

  /** Checks the finished text; rejects with a GrammarError if the grammar does not accept it. */
  async finish(): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#next;
    // Checking a long text takes a few milliseconds.
    if (this.#tokens.length > LONG_TEXT_TOKENS) this.#moveTo(this.#parts.slowWorker());
    await this.#ask(undefined);
  }

  fork(): GrammarConstraint {
    this.#lifetime.assertAlive();
    return new GrammarConstraint(this.#parts, this.#tokens);
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#worker.texts--;
    this.#worker.close(this.#text);
  }

  /** Computes the mask of the next token. */
  async #prepare(): Promise<void> {
    if (this.#lifetime.disposed) throw new DisposedError("a grammar's constraint");
    await this.#ask(this.#shared);
    this.#mask.set(this.#shared);
  }

  async #ask(mask: Uint32Array | undefined): Promise<void> {
    const { id, spec } = this.#parts;
    const count = this.#tokens.length;
    let tookMs: number;
    try {
      tookMs = await this.#worker.advance(id, spec, {
        id: this.#text,
        tokens: this.#tokens,
        sentTokens: this.#sentTokens,
        ...(mask === undefined ? {} : { mask }),
      });
    } finally {
      // The text may have been resent to the worker after its end.
      if (this.#lifetime.disposed) this.#worker.close(this.#text);
    }
    this.#sentTokens = count;
    if (tookMs > SLOW_MASK_MS && ++this.#slowMasks === MAX_SLOW_MASKS && !this.#lifetime.disposed) this.#moveSlow();
  }

  /** Moves a slow text to the worker for such texts, which takes no more than it can serve in half a minute. */
  #moveSlow(): void {
    const worker = this.#parts.slowWorker();
    if (worker !== this.#worker && worker.texts >= MAX_SLOW_TEXTS) {
      throw new GrammarError(
        "GRAMMAR_LIMIT",
        `[grammar] expected a grammar whose masks are soon made, and ${MAX_SLOW_TEXTS} texts with slow ones are followed already; simplify it, or try again later`,
        {
          details: { limit: "slowTexts", most: MAX_SLOW_TEXTS },
        },
      );
    }
    this.#moveTo(worker);
  }

  /** Moves the text to another worker. */
  #moveTo(worker: GrammarWorker): void {
    if (worker === this.#worker) return;
    this.#worker.texts--;
    this.#worker.close(this.#text);
    this.#worker = worker;
    worker.texts++;
    this.#sentTokens = 0;
  }
}
