// Distinguishes pasted text from typed keys, by the marks that a terminal puts around a paste on request ("bracketed
// paste"). Pure; input may be cut anywhere. Text that does not fit one edited line is stored, and a short name replaces
// it in the line until the line is read.

import { countOf } from "../format.js";
import { MAX_MESSAGE_CHARACTERS } from "./message-assembly.js";

/** Asks the terminal to mark pasted text. */
export const ENABLE_PASTE_MARKS = "\u001b[?2004h";
/** Asks the terminal to stop marking pasted text. */
export const DISABLE_PASTE_MARKS = "\u001b[?2004l";

/** The character that Ctrl-C sends in raw mode. */
export const CTRL_C = "\u0003";
const PASTE_BEGIN = "\u001b[200~";
const PASTE_END = "\u001b[201~";
/** A single Escape is a key, and is not held back to see what follows. */
const SHORTEST_HELD_PREFIX = 2;
/** Longer pastes are replaced by a name, because editing a line takes time with each character. */
const LONGEST_TYPED_PASTE = 200;

/** Typed keys, or one pasted text. */
export type KeyEvent =
  | { readonly kind: "keys"; readonly text: string }
  | { readonly kind: "paste"; readonly text: string };

/** Splits terminal input into keys and pastes. */
export class PasteFilter {
  #isPasting = false;
  #held = "";
  #pasted: string[] = [];
  #pastedCharacters = 0;

  push(text: string): readonly KeyEvent[] {
    if (this.#isPasting && text === CTRL_C) return this.#giveUp(text);
    const events: KeyEvent[] = [];
    let rest = this.#held + text;
    this.#held = "";
    for (;;) {
      const mark = this.#isPasting ? PASTE_END : PASTE_BEGIN;
      const place = rest.indexOf(mark);
      if (place === -1) break;
      this.#take(rest.slice(0, place), events);
      if (this.#isPasting) events.push({ kind: "paste", text: this.#takePaste() });
      this.#isPasting = !this.#isPasting;
      rest = rest.slice(place + mark.length);
    }
    const kept = heldPrefix(rest, this.#isPasting ? PASTE_END : PASTE_BEGIN);
    this.#held = rest.slice(rest.length - kept);
    this.#take(rest.slice(0, rest.length - kept), events);
    return events;
  }

  #take(text: string, events: KeyEvent[]): void {
    if (text === "") return;
    if (!this.#isPasting) {
      events.push({ kind: "keys", text });
      return;
    }
    // One character past the limit is kept, so that the message is refused and not truncated.
    const room = MAX_MESSAGE_CHARACTERS + 1 - this.#pastedCharacters;
    if (room <= 0) return;
    this.#pasted.push(text.slice(0, room));
    this.#pastedCharacters += text.length;
  }

  /** A paste without an end mark would swallow every key; Ctrl-C, which is never pasted alone, ends it. */
  #giveUp(text: string): readonly KeyEvent[] {
    this.#isPasting = false;
    this.#held = "";
    this.#takePaste();
    return [{ kind: "keys", text }];
  }

  #takePaste(): string {
    const text = this.#pasted.join("");
    this.#pasted = [];
    this.#pastedCharacters = 0;
    return text;
  }
}

/** Length of the longest suffix, of at least two characters, that is a prefix of the mark. */
function heldPrefix(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length >= SHORTEST_HELD_PREFIX; length--) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

/** Pasted texts by the names that replace them in the edited line. */
export class PastedTexts {
  readonly #texts = new Map<string, string>();
  #characters = 0;
  #count = 0;

  /** Text for the edited line: the pasted text itself if it could have been typed, otherwise its name. */
  keep(pasted: string): string {
    const text = pasted.replace(/\r\n?/g, "\n").replace(/\n+$/, "");
    if (text.length <= LONGEST_TYPED_PASTE && !/\p{Cc}/u.test(text)) return text;
    const name = `[pasted ${++this.#count}: ${countOf(text.split("\n").length, "line")}]`;
    this.#texts.set(name, text);
    this.#characters += text.length;
    for (const [oldest, { length }] of this.#texts) {
      if (this.#characters <= 2 * MAX_MESSAGE_CHARACTERS) break;
      this.#texts.delete(oldest);
      this.#characters -= length;
    }
    return name;
  }

  /** The line with every name replaced by its text. */
  expand(line: string): string {
    return line.replace(/\[pasted \d+: [\d,]+ lines?\]/g, (name) => this.#texts.get(name) ?? name);
  }
}
