// A compiled grammar, and the constraint that keeps one text to it: the shape of engine/serving.ts's TokenConstraint. The
// thread is asked as soon as a token is known, so that the mask is made while others are served.

import { DisposedError } from "../errors.js";
import { Lifetime } from "../lifetime.js";
import type { ForcedTokens } from "./forced-tokens.js";
import type { GrammarHome } from "./grammar-home.js";
import { grammarInvalid } from "./limits.js";
import type { GrammarSpec } from "./grammar-spec.js";

/** What all constraints of one grammar share. */
export interface GrammarParts {
  readonly id: number;
  readonly spec: GrammarSpec;
  /** The thread that shall follow one more text. */
  readonly chooseHome: () => GrammarHome;
  readonly forced: ForcedTokens;
  readonly maskWords: number;
  readonly endTokens: readonly number[];
  /** A number for a text, of which there is no other. */
  readonly nextText: () => number;
}

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
  readonly #home: GrammarHome;
  readonly #text: number;
  /** All that was accepted; the grammar itself hears of what is between head and tail. */
  readonly #tokens: number[];
  readonly #shared: Uint32Array;
  readonly #mask: Uint32Array;
  readonly #lifetime = new Lifetime("a grammar's constraint");
  #heard = 0;
  /** How many tokens of the tail were accepted; undefined before the first. */
  #inTail: number | undefined;
  #next: Promise<void>;

  constructor(parts: GrammarParts, tokens: readonly number[]) {
    this.#parts = parts;
    this.#text = parts.nextText();
    this.#tokens = [...tokens];
    this.#shared = new Uint32Array(new SharedArrayBuffer(4 * parts.maskWords));
    this.#mask = new Uint32Array(parts.maskWords);
    this.#home = parts.chooseHome();
    this.#home.texts++;
    this.#inTail = this.#tailReached();
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
    const { forced } = this.#parts;
    if (this.#inTail !== undefined) this.#inTail++;
    else if (forced.tail.length > 0 && token === forced.tail[0] && this.#tokens.length > forced.head.length) this.#inTail = 1;
    const before = this.#next;
    // One question after the other, whether or not anybody waited for the last mask.
    this.#next = before.then(() => this.#prepare());
    this.#next.catch(() => {});
  }

  /** Checks the finished text, which the last accepted token ended or an end token would: rejects where it is not of the grammar. */
  async finish(): Promise<void> {
    this.#lifetime.assertAlive();
    await this.#next;
    const { forced, id, spec } = this.#parts;
    const { head, tail } = forced;
    const text = this.#tokens.slice(0, this.#inTail === undefined ? undefined : this.#tokens.length - this.#inTail);
    const whole = this.#tokens.length >= head.length && (tail.length === 0 || this.#inTail === tail.length);
    if (!whole) throw grammarInvalid("text", "expected a finished text of the grammar, found the beginning of one");
    await this.#home.advance(id, spec, { id: this.#text, tokens: text, skipped: head.length, heard: Math.min(this.#heard, text.length - head.length) });
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
    const { forced, endTokens, id, spec } = this.#parts;
    const { head, tail } = forced;
    if (this.#lifetime.disposed) throw new DisposedError("a grammar's constraint");
    if (this.#tokens.length < head.length) return this.#only([head[this.#tokens.length] as number]);
    if (this.#inTail !== undefined) return this.#only(this.#inTail < tail.length ? [tail[this.#inTail] as number] : endTokens);
    const count = this.#tokens.length;
    try {
      await this.#home.advance(id, spec, { id: this.#text, tokens: this.#tokens, skipped: head.length, heard: this.#heard, mask: this.#shared });
    } finally {
      // The thread may have been taught the text again after it was told of its end.
      if (this.#lifetime.disposed) this.#home.close(this.#text);
    }
    this.#heard = count - head.length;
    this.#mask.set(this.#shared);
    // Where the text may end, the tail comes first.
    if (tail.length > 0 && endTokens.filter((token) => this.#clear(token)).length > 0) this.#set(tail[0] as number);
  }

  #only(tokens: readonly number[]): void {
    this.#mask.fill(0);
    for (const token of tokens) this.#set(token);
  }

  #tailReached(): number | undefined {
    const { head, tail } = this.#parts.forced;
    const place = tail.length === 0 ? -1 : this.#tokens.indexOf(tail[0] as number, head.length);
    return place === -1 ? undefined : this.#tokens.length - place;
  }

  #set(token: number): void {
    this.#mask[token >>> 5] |= 1 << (token & 31);
  }

  /** Whether it was set. */
  #clear(token: number): boolean {
    const bit = 1 << (token & 31);
    const was = ((this.#mask[token >>> 5] as number) & bit) !== 0;
    this.#mask[token >>> 5] &= ~bit;
    return was;
  }
}
