// Finds the end of a JSON object that is still arriving, and the positions of its members, without building anything.
// It stops at the first character that no JSON can have there, so that a broken call does not swallow the text behind
// it; the complete text is validated by its reader.

import { MAX_CALL_CHARACTERS, MAX_CALL_DEPTH } from "../limits.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const SPACE = 0x20;
const OPENING: Readonly<Record<string, string>> = { "{": "}", "[": "]" };
/** Characters of numbers, true, false, null, and white space. */
const PLAIN = /[\w+\-.\s]/;

/** Offsets in the scanned text: the key with its quotes, and its value with white space around it. */
interface MemberPlace {
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** Scans a JSON object that arrives in chunks. */
export class JsonScanner {
  readonly members: MemberPlace[] = [];
  #state: "open" | "whole" | "broken" = "open";
  readonly #closers: string[] = [];
  #inString = false;
  #escaped = false;
  #scanned = 0;
  #stringStart = 0;
  #lastString: readonly [start: number, end: number] = [0, 0];
  #key: { readonly keyStart: number; readonly keyEnd: number; readonly valueStart: number } | undefined;

  get state(): "open" | "whole" | "broken" {
    return this.#state;
  }

  /**
   * The offset at which the object ends or is invalid; undefined if it continues. The first character has to be its
   * opening brace.
   */
  readonly scan = (text: string, from: number): number | undefined => {
    for (let at = from; at < text.length; at++) {
      if (this.#scanned >= MAX_CALL_CHARACTERS || !this.#accept(text.charCodeAt(at), text[at] as string)) {
        this.#state = "broken";
        return at;
      }
      this.#scanned++;
      if (this.#closers.length > 0 || this.#inString) continue;
      this.#state = "whole";
      return at + 1;
    }
    return undefined;
  };

  #accept(code: number, character: string): boolean {
    if (this.#inString) return this.#acceptInString(code);
    const closers = this.#closers;
    const top = closers.length === 1;
    if (code === QUOTE) {
      this.#inString = true;
      this.#stringStart = this.#scanned;
      return closers.length > 0;
    }
    const closer = OPENING[character];
    if (closer !== undefined)
      return closers.push(closer) <= MAX_CALL_DEPTH && (closers.length > 1 || character === "{");
    if (character === closers.at(-1)) {
      if (top) this.#endMember();
      closers.pop();
      return true;
    }
    if (code === COMMA) {
      if (top) this.#endMember();
      return true;
    }
    if (code === COLON) {
      if (top && this.#key === undefined)
        this.#key = { keyStart: this.#lastString[0], keyEnd: this.#lastString[1], valueStart: this.#scanned + 1 };
      return true;
    }
    return closers.length > 0 && PLAIN.test(character);
  }

  #acceptInString(code: number): boolean {
    if (this.#escaped) this.#escaped = false;
    else if (code === BACKSLASH) this.#escaped = true;
    else if (code === QUOTE) {
      this.#inString = false;
      if (this.#closers.length === 1) this.#lastString = [this.#stringStart, this.#scanned + 1];
    } else if (code < SPACE) return false;
    return true;
  }

  #endMember(): void {
    if (this.#key !== undefined) this.members.push({ ...this.#key, valueEnd: this.#scanned });
    this.#key = undefined;
  }
}
