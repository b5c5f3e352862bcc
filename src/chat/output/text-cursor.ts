// A position in a text that is still arriving. Readers are generators: if the text so far does not decide, they yield,
// and continue when there is more, so that they read as if all of it were there. Invariants: what a reader reports does
// not depend on how the text was cut; every character is read a bounded number of times.

/** A reader: it yields when it needs more text. */
export type Reading<Result> = Generator<undefined, Result, undefined>;

/** Literal texts to search for; none is a prefix of another. */
export class Markers {
  readonly #pattern: RegExp;
  readonly #texts: readonly string[];

  constructor(texts: readonly string[]) {
    this.#texts = texts;
    this.#pattern = new RegExp(
      texts.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|") || "(?!)",
      "g",
    );
  }

  find(text: string, from: number): { readonly at: number; readonly marker: string } | undefined {
    this.#pattern.lastIndex = from;
    const match = this.#pattern.exec(text);
    return match === null ? undefined : { at: match.index, marker: match[0] };
  }

  /** The index from which the end of the text may be the start of a marker. */
  heldBackFrom(text: string, from: number): number {
    let first = text.length;
    for (const marker of this.#texts) {
      for (let at = Math.max(from, text.length - marker.length + 1); at < first; at++) {
        if (marker.startsWith(text.slice(at))) first = at;
      }
    }
    return first;
  }
}

/** A position in a text that arrives in chunks. */
export class TextCursor {
  #text = "";
  #at = 0;
  #ended = false;
  #record: string | undefined;

  push(chunk: string): void {
    this.#text = this.#at === this.#text.length ? chunk : this.#text.slice(this.#at) + chunk;
    this.#at = 0;
  }

  end(): void {
    this.#ended = true;
  }

  /** Records what is read from here on, behind `already`, until it is taken back. */
  startRecord(already = ""): void {
    this.#record = already;
  }

  /** Records what is read from here on, unless something is being recorded already. */
  keepRecord(): void {
    this.#record ??= "";
  }

  takeRecord(): string {
    const record = this.#record ?? "";
    this.#record = undefined;
    return record;
  }

  /** Puts text back that was read, so that it comes next. */
  unread(text: string): void {
    this.#text = text + this.#text.slice(this.#at);
    this.#at = 0;
  }

  get recordedCharacters(): number {
    return this.#record?.length ?? 0;
  }

  /** The next character, without reading it; undefined at the end. */
  *peek(): Reading<string | undefined> {
    while (this.#at === this.#text.length) {
      if (this.#ended) return undefined;
      yield;
    }
    return this.#text[this.#at];
  }

  /** Reads white space, if there is any. */
  *space(): Reading<string> {
    let all = "";
    for (;;) {
      const rest = this.#text.slice(this.#at);
      const length = rest.length - rest.trimStart().length;
      all += this.#take(this.#at + length);
      if (length < rest.length || this.#ended) return all;
      yield;
    }
  }

  /** Reads this text if it comes next. */
  *literal(text: string): Reading<boolean> {
    for (;;) {
      const come = this.#text.slice(this.#at, this.#at + text.length);
      if (come === text) {
        this.#take(this.#at + text.length);
        return true;
      }
      if (this.#ended || !text.startsWith(come)) return false;
      yield;
    }
  }

  /** Passes on the text before a marker as it comes, and reads the marker; undefined if the text ends without one. */
  *until(markers: Markers, give: (text: string) => void): Reading<string | undefined> {
    for (;;) {
      const found = markers.find(this.#text, this.#at);
      if (found !== undefined) {
        give(this.#take(found.at));
        this.#take(found.at + found.marker.length);
        return found.marker;
      }
      give(this.#take(this.#ended ? this.#text.length : markers.heldBackFrom(this.#text, this.#at)));
      if (this.#ended) return undefined;
      yield;
    }
  }

  /** Reads as far as `scan` goes, which returns the index at which it stopped, or undefined if it needs more. */
  *scan(scan: (text: string, from: number) => number | undefined, give: (text: string) => void): Reading<boolean> {
    for (;;) {
      const stop = scan(this.#text, this.#at);
      give(this.#take(stop ?? this.#text.length));
      if (stop !== undefined) return true;
      if (this.#ended) return false;
      yield;
    }
  }

  #take(to: number): string {
    const taken = this.#text.slice(this.#at, to);
    this.#at = to;
    if (this.#record !== undefined) this.#record += taken;
    return taken;
  }
}

const WORD_CHARACTER = /[\w.:\-/]/;

/** Reads the characters of a name, without white space; empty if none comes next. */
export function* readWord(cursor: TextCursor): Reading<string> {
  let word = "";
  yield* cursor.scan(wordEnd, (text) => (word += text));
  return word;
}

function wordEnd(text: string, from: number): number | undefined {
  for (let at = from; at < text.length; at++) if (!WORD_CHARACTER.test(text[at] as string)) return at;
  return undefined;
}
