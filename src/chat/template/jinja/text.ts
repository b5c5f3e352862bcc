// A text inside a template, with its provenance: which ranges are untrusted (messages, tools, options) and which the
// template wrote. Only the template's own text may become control tokens, so every operation on texts keeps track.
// Invariant: ranges are in order, not empty, and do not touch.

import { checkText } from "./bounded-realm.js";

/** Untrusted ranges: start, end, start, end … */
type Borders = readonly number[];

interface Stretch {
  readonly text: string;
  readonly untrusted: boolean;
}

const NONE: Borders = [];

/**
 * A string value of a template that knows which of its characters come from untrusted input, and can therefore not
 * become control tokens.
 */
export class Text {
  readonly value: string;
  readonly #untrusted: Borders;

  private constructor(value: string, untrusted: Borders) {
    checkText(value.length);
    this.value = value;
    this.#untrusted = untrusted;
  }

  /** Text that the template wrote. */
  static trusted(value: string): Text {
    return new Text(value, NONE);
  }

  /** Text from messages, tools and options, or derived from it. */
  static untrusted(value: string): Text {
    return new Text(value, value === "" ? NONE : [0, value.length]);
  }

  static withBorders(value: string, untrusted: Borders): Text {
    return new Text(value, untrusted);
  }

  static concat(...parts: readonly Text[]): Text {
    const builder = new TextBuilder();
    for (const part of parts) builder.add(part);
    return builder.finish();
  }

  get length(): number {
    return this.value.length;
  }

  get borders(): Borders {
    return this.#untrusted;
  }

  /** A part of the text; `from` and `to` are UTF-16 indices within it. */
  slice(from: number, to: number = this.length): Text {
    if (from === 0 && to === this.length) return this;
    if (from >= to) return EMPTY_TEXT;
    const borders: number[] = [];
    for (let at = this.#firstEndingAfter(from); at < this.#untrusted.length; at += 2) {
      const start = Math.max(this.#untrusted[at], from);
      const end = Math.min(this.#untrusted[at + 1], to);
      if (start >= end) break;
      borders.push(start - from, end - from);
    }
    return new Text(this.value.slice(from, to), borders);
  }

  /** The whole text as trusted and untrusted ranges in turn. */
  *stretches(): Generator<Stretch, void, undefined> {
    let from = 0;
    for (let at = 0; at < this.#untrusted.length; at += 2) {
      const [start, end] = [this.#untrusted[at], this.#untrusted[at + 1]];
      if (start > from) yield { text: this.value.slice(from, start), untrusted: false };
      yield { text: this.value.slice(start, end), untrusted: true };
      from = end;
    }
    if (from < this.length) yield { text: this.value.slice(from), untrusted: false };
  }

  /**
   * Changes the text character by character. If its length stays the same, so do the ranges; otherwise each range is
   * changed by itself.
   */
  map(change: (text: string) => string): Text {
    const whole = change(this.value);
    if (whole.length === this.length || this.#untrusted.length === 0) return new Text(whole, this.#untrusted);
    const builder = new TextBuilder();
    for (const { text, untrusted } of this.stretches())
      builder.add(untrusted ? Text.untrusted(change(text)) : Text.trusted(change(text)));
    return builder.finish();
  }

  /** The index of the first range that ends behind this place. */
  #firstEndingAfter(place: number): number {
    let [low, high] = [0, this.#untrusted.length / 2];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#untrusted[2 * middle + 1] > place) high = middle;
      else low = middle + 1;
    }
    return 2 * low;
  }
}

/** The empty string, which is trusted. */
export const EMPTY_TEXT: Text = Text.trusted("");

/** Concatenates texts and keeps track of their untrusted ranges. */
export class TextBuilder {
  #value = "";
  readonly #borders: number[] = [];

  get length(): number {
    return this.#value.length;
  }

  add({ value, borders }: Text): this {
    if (value === "") return this;
    const offset = this.#value.length;
    checkText(offset + value.length);
    this.#value += value;
    for (let at = 0; at < borders.length; at += 2) {
      const start = borders[at] + offset;
      if (this.#borders.length > 0 && this.#borders.at(-1) === start) this.#borders.pop();
      else this.#borders.push(start);
      this.#borders.push(borders[at + 1] + offset);
    }
    return this;
  }

  finish(): Text {
    return Text.withBorders(this.#value, this.#borders);
  }
}

/** Concatenates texts with a separator between them; both keep their provenance. */
export function joined(parts: readonly Text[], separator: Text): Text {
  const builder = new TextBuilder();
  for (const [place, part] of parts.entries()) {
    if (place > 0) builder.add(separator);
    builder.add(part);
  }
  return builder.finish();
}
