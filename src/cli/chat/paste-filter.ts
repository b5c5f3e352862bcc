// Tells pasted text from typed keys, by the marks that a terminal puts around a paste once it is asked to ("bracketed
// paste"). Pure; cuts may come anywhere. Text that does not fit one edited line is stored, and a short name stands in
// the line for it until the line is read.

import { countOf } from "../format.js";
import { MAX_MESSAGE_CHARACTERS } from "./message-assembly.js";

export const ENABLE_PASTE_MARKS = "\u001b[?2004h";
export const DISABLE_PASTE_MARKS = "\u001b[?2004l";

export const CTRL_C = "\u0003";
const PASTE_BEGIN = "\u001b[200~";
const PASTE_END = "\u001b[201~";
/** Escape alone is a key, and is not held back to see what follows. */
const SHORTEST_HELD_PREFIX = 2;
/** Editing one line takes time with each character. */
const LONGEST_TYPED_PASTE = 200;

export type KeyEvent =
  | { readonly kind: "keys"; readonly text: string }
  | { readonly kind: "paste"; readonly text: string };

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

  /** A paste whose end never comes would swallow every key; Ctrl-C, which is not pasted alone, ends it. */
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

/** Length of the longest tail that begins the mark, of at least two characters. */
function heldPrefix(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length >= SHORTEST_HELD_PREFIX; length--) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

export class PastedTexts {
  readonly #texts = new Map<string, string>();
  #characters = 0;
  #count = 0;

  /** What to put into the line: the text itself if it could have been typed, else its name. */
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
