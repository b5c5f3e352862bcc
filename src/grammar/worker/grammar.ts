// A compiled grammar, and the constraint that keeps one text to it: the shape of engine/serving.ts's TokenConstraint. The
// worker is asked as soon as a token is known, so that the mask is made while others are served.

import { DisposedError, GrammarError } from "../../errors.js";
import { Lifetime } from "../../lifetime.js";
import type { GrammarHome } from "./grammar-worker.js";
import type { GrammarSpec } from "../grammar-spec.js";

/** What all constraints of one grammar share. */
export interface GrammarParts {
  readonly id: number;
  readonly spec: GrammarSpec;
  /** The worker that shall follow one more text. */
  readonly chooseHome: () => GrammarHome;
  /** The worker for texts whose masks take long. */
  readonly slowHome: () => GrammarHome;
  readonly maskWords: number;
  /** A number for a text, of which there is no other. */
  readonly nextText: () => number;
}

/** A mask takes less than a millisecond where nothing else runs. */
const SLOW_MASK_MS = 15;
const MAX_SLOW_MASKS = 2;
const LONG_TEXT_TOKENS = 4096;
const MAX_SLOW_TEXTS = 8;

export class Grammar {
  readonly #parts: GrammarParts;
  #characters: number | undefined;

  constructor(parts: GrammarParts) {
    this.#parts = parts;
  }

  /** Of what was asked for. */
  get characters(): number {
    return (this.#characters ??= JSON.stringify(this.#parts.spec).length);
  }

  /** For one text. Dispose it when the text has ended. */
  constraint(): GrammarConstraint {
    return new GrammarConstraint(this.#parts, []);
  }
}

export class GrammarConstraint implements Disposable {
  readonly #parts: GrammarParts;
  #home: GrammarHome;
  readonly #text: number;
  readonly #tokens: number[];
  readonly #shared: Uint32Array;
  readonly #mask: Uint32Array;
  readonly #lifetime = new Lifetime("a grammar's constraint");
  #heard = 0;
  /** Masks that took long. */
  #slowMasks = 0;
  #next: Promise<void>;

  constructor(parts: GrammarParts, tokens: readonly number[]) {
    this.#parts = parts;
    this.#text = parts.nextText();
    this.#tokens = [...tokens];
    this.#shared = new Uint32Array(new SharedArrayBuffer(4 * parts.maskWords));
    this.#mask = new Uint32Array(parts.maskWords);
    this.#home = parts.chooseHome();
    this.#home.texts++;
    this.#next = this.#prepare();
    this.#next.catch(() => {});
  }

  /** The array is this constraint's own, and written anew before the next token. Rejects with a GrammarError. */
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
    // One question after the other, whether or not anybody waited for the last mask.
    this.#next = before.then(() => this.#prepare());
    this.#next.catch(() => {});
  }

  /** Checks the text, which is called finished: rejects with a GrammarError if the grammar does not accept it. */
  async finish(): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#next;
    // To check a long text takes some milliseconds.
    if (this.#tokens.length > LONG_TEXT_TOKENS) this.#moveTo(this.#parts.slowHome());
    await this.#ask(undefined);
  }

  fork(): GrammarConstraint {
    this.#lifetime.assertAlive();
    return new GrammarConstraint(this.#parts, this.#tokens);
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#home.texts--;
    this.#home.close(this.#text);
  }

  /** Makes the mask of the next token. */
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
      tookMs = await this.#home.advance(id, spec, {
        id: this.#text,
        tokens: this.#tokens,
        heard: this.#heard,
        ...(mask === undefined ? {} : { mask }),
      });
    } finally {
      // The worker may have been sent the text again after it was told of its end.
      if (this.#lifetime.disposed) this.#home.close(this.#text);
    }
    this.#heard = count;
    if (tookMs > SLOW_MASK_MS && ++this.#slowMasks === MAX_SLOW_MASKS && !this.#lifetime.disposed) this.#moveSlow();
  }

  /** Slow texts take turns in one worker: no more of them than it can serve in half a minute. */
  #moveSlow(): void {
    const home = this.#parts.slowHome();
    if (home !== this.#home && home.texts >= MAX_SLOW_TEXTS) {
      throw new GrammarError(
        "GRAMMAR_LIMIT",
        `[grammar] expected a grammar whose masks are soon made, and ${MAX_SLOW_TEXTS} texts with slow ones are followed already; simplify it, or try again later`,
        {
          details: { limit: "slowTexts", most: MAX_SLOW_TEXTS },
        },
      );
    }
    this.#moveTo(home);
  }

  /** Where only those wait that are slow themselves. */
  #moveTo(home: GrammarHome): void {
    if (home === this.#home) return;
    this.#home.texts--;
    this.#home.close(this.#text);
    this.#home = home;
    home.texts++;
    this.#heard = 0;
  }
}
