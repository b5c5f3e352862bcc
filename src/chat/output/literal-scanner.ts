// Finds the end of a bracketed text that is still arriving: Python's arguments, or a map with strings between marks.
// It stops at the first character that cannot be there, so that a broken call does not swallow the text behind it.

import { MAX_CALL_CHARACTERS, MAX_CALL_DEPTH } from "../limits.js";
import { endsString, type LiteralNotation } from "./literal-parser.js";
import type { Reading, TextCursor } from "./text-cursor.js";

const CLOSERS: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };
const LINE_SPACE = /\s/;

/** Reads a bracketed text, brackets included; undefined if none comes next or it does not end. */
export function* readBracketed(cursor: TextCursor, notation: LiteralNotation): Reading<string | undefined> {
  if (CLOSERS[(yield* cursor.peek()) ?? ""] === undefined) return undefined;
  const scanner = new LiteralScanner(notation);
  let text = "";
  yield* cursor.scan(
    (chunk, from) => scanner.scan(chunk, from),
    (part) => (text += part),
  );
  return scanner.state === "whole" ? text : undefined;
}

class LiteralScanner {
  readonly #notation: LiteralNotation;
  readonly #closers: string[] = [];
  #state: "open" | "whole" | "broken" = "open";
  /** The quote of the string that is open. */
  #quote: string | undefined;
  /** A quote of one character has come, and the next character decides whether it ends the string. */
  #undecided = false;
  #escaped = false;
  /** Characters that may be the start of a longer quote. */
  #recent = "";
  #scanned = 0;

  constructor(notation: LiteralNotation) {
    this.#notation = notation;
  }

  get state(): "open" | "whole" | "broken" {
    return this.#state;
  }

  scan(text: string, from: number): number | undefined {
    for (let at = from; at < text.length; at++) {
      if (this.#scanned++ >= MAX_CALL_CHARACTERS || !this.#accept(text[at] as string)) {
        this.#state = "broken";
        return at;
      }
      if (this.#closers.length > 0) continue;
      this.#state = "whole";
      return at + 1;
    }
    return undefined;
  }

  #accept(character: string): boolean {
    if (this.#undecided) {
      if (LINE_SPACE.test(character)) return true;
      this.#undecided = false;
      if (endsString(character, 0)) this.#quote = undefined;
    }
    if (this.#quote !== undefined) return this.#acceptInString(character);
    if (this.#opensString(character)) return true;
    const closer = CLOSERS[character];
    if (closer !== undefined) return this.#closers.push(closer) <= MAX_CALL_DEPTH;
    if (character !== ")" && character !== "]" && character !== "}") return true;
    return this.#closers.pop() === character;
  }

  #opensString(character: string): boolean {
    this.#recent = (this.#recent + character).slice(-LONGEST_QUOTE);
    this.#quote = this.#notation.quotes.find((quote) => this.#recent.endsWith(quote));
    if (this.#quote === undefined) return false;
    this.#recent = "";
    return true;
  }

  #acceptInString(character: string): boolean {
    if (this.#escaped) this.#escaped = false;
    else if (this.#notation.escapes && character === "\\") this.#escaped = true;
    else {
      this.#recent = (this.#recent + character).slice(-LONGEST_QUOTE);
      if (!this.#recent.endsWith(this.#quote as string)) return true;
      this.#recent = "";
      if ((this.#quote as string).length === 1) this.#undecided = true;
      else this.#quote = undefined;
    }
    return true;
  }
}

/** Characters of the longest quote of any notation. */
const LONGEST_QUOTE = 8;
