// A compiled grammar, and the constraint that makes one text follow it, a TokenConstraint of engine/serving.ts. A mask
// is computed while other sequences run, together with those along a draft.

import { DisposedError, GrammarError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import type { GrammarWorker } from "./grammar-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";
import type { PathRequest } from "./thread-message.js";

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
  /** Memory of the mask and of those along a draft, and the copy that the engine reads. */
  #shared: Uint32Array;
  #masks: Uint32Array;
  #path: readonly number[] = [];
  /** Whether tokens were accepted since the last mask was requested. */
  #isBehind = false;
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
    this.#masks = new Uint32Array(parts.maskWords);
    this.#worker = parts.chooseWorker();
    this.#worker.texts++;
    this.#next = this.#prepare();
    this.#next.catch(() => {});
  }

  /**
   * The mask of the next token, in an array that is overwritten before the one after it. Rejects with a GrammarError.
   */
  async allowed(): Promise<Uint32Array> {
    const { masks } = await this.allowedAlong([], 0);
    return masks[0];
  }

  /**
   * The masks along a draft, and along tokens that the grammar forces, in arrays that are overwritten before those after
   * them. Rejects with a GrammarError.
   */
  async allowedAlong(
    draft: readonly number[],
    most: number,
  ): Promise<{ readonly tokens: readonly number[]; readonly masks: [Uint32Array, ...Uint32Array[]] }> {
    this.#lifetime.assertAlive();
    if (this.#isBehind || most > 0) {
      this.#isBehind = false;
      const before = this.#next;
      // Requests are sent one after another, even if the last mask was not awaited.
      this.#next = before.then(() => this.#prepare(most > 0 ? { draft, most } : undefined));
      this.#next.catch(() => {});
    }
    await this.#next;
    this.#lifetime.assertAlive();
    const { maskWords } = this.#parts;
    const maskAfter = (tokens: number): Uint32Array =>
      this.#masks.subarray(tokens * maskWords, (tokens + 1) * maskWords);
    return { tokens: this.#path, masks: [maskAfter(0), ...this.#path.map((_, index) => maskAfter(index + 1))] };
  }

  accept(token: number): void {
    this.#lifetime.assertAlive();
    this.#tokens.push(token);
    this.#isBehind = true;
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

  /** Computes the mask of the next token, and those along a path. */
  async #prepare(further?: PathRequest): Promise<void> {
    if (this.#lifetime.disposed) throw new DisposedError("a grammar's constraint");
    const { maskWords } = this.#parts;
    const words = maskWords * (1 + (further?.most ?? 0));
    if (this.#shared.length < words) {
      this.#shared = new Uint32Array(new SharedArrayBuffer(4 * words));
      this.#masks = new Uint32Array(words);
    }
    this.#path = await this.#ask(this.#shared.subarray(0, words), further);
    const used = maskWords * (1 + this.#path.length);
    this.#masks.set(this.#shared.subarray(0, used));
  }

  async #ask(mask: Uint32Array | undefined, further?: PathRequest): Promise<readonly number[]> {
    const { id, spec } = this.#parts;
    const count = this.#tokens.length;
    let advance: Awaited<ReturnType<GrammarWorker["advance"]>>;
    try {
      advance = await this.#worker.advance(id, spec, {
        id: this.#text,
        tokens: this.#tokens,
        sentTokens: this.#sentTokens,
        ...(mask === undefined ? {} : { mask }),
        ...(further === undefined ? {} : { further }),
      });
    } finally {
      // The text may have been resent to the worker after its end.
      if (this.#lifetime.disposed) this.#worker.close(this.#text);
    }
    this.#sentTokens = count;
    const { tookMs, path } = advance;
    const isSlow = tookMs > SLOW_MASK_MS * (1 + path.length);
    if (isSlow && ++this.#slowMasks === MAX_SLOW_MASKS && !this.#lifetime.disposed) this.#moveSlow();
    return path;
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
