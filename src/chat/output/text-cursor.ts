// A place in a text that is still arriving. Readers are generators: where the text that has come does not decide, they
// yield and go on when there is more, so that they read as if it were all there. Invariants: what a reader gives does not
// depend on how the text was cut; every character is looked at a bounded number of times.

export type Reading<Result> = Generator<undefined, Result, undefined>;

/** Some literal texts to look for; none is the beginning of another. */
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

  /** Where the end of the text may be the beginning of one. */
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

export class TextCursor {
  #text = "";
  #at = 0;
  #ended = false;
  #record: string | undefined;

  push(piece: string): void {
    this.#text = this.#at === this.#text.length ? piece : this.#text.slice(this.#at) + piece;
    this.#at = 0;
  }

  end(): void {
    this.#ended = true;
  }

  /** Keeps what is read from here on, behind what was read already, until it is taken back. */
  startRecord(already = ""): void {
    this.#record = already;
  }

  takeRecord(): string {
    const record = this.#record ?? "";
    this.#record = undefined;
    return record;
  }

  get recordedCharacters(): number {
    return this.#record?.length ?? 0;
  }

  /** The next character, which is not read by that; undefined at the end. */
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

  /** Reads this text if it is what comes. */
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

  /** Gives what comes before a marker, bit by bit, and reads that too; undefined when none has come by the end. */
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

  /** Reads as far as `scan` goes: it says where it stopped in the text, or undefined when it wants more. */
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
