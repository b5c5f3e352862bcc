// A rendered prompt with its provenance: which characters the template wrote, and which came from messages, tools and
// options. Only the former may become control tokens; the segments tell the tokenizer.

/** A rendered text, and the ranges of it that are untrusted: start, end, start, end … */
export interface RenderedText {
  readonly text: string;
  readonly untrusted: readonly number[];
}

const CHARACTERS_OF_BOUNDARY = 4;

/** The memory of a rendered text, in characters; a boundary takes as much as a few of them. */
export function renderedCharacters({ text, untrusted }: RenderedText): number {
  return text.length + CHARACTERS_OF_BOUNDARY * untrusted.length;
}

/** A segment of a prompt for the tokenizer. */
export interface PromptSegment {
  readonly text: string;
  /** Whether the text of a control token in the segment becomes that token. */
  readonly parseSpecial: boolean;
}

/** A rendered prompt that keeps track of untrusted text. */
export class PromptText {
  readonly text: string;
  /** Ranges of untrusted text: start, end, start, end … */
  readonly #untrusted: readonly number[];

  constructor({ text, untrusted }: RenderedText) {
    this.text = text;
    this.#untrusted = untrusted;
  }

  /** Whether it begins with this text, written by the template. */
  startsWith(start: string): boolean {
    return this.text.startsWith(start) && this.#isTrusted(0, start.length);
  }

  /** Whether it ends with this text, written by the template; white space behind it is ignored. */
  endsWith(end: string): boolean {
    const { length } = this.text.trimEnd();
    return this.text.slice(0, length).endsWith(end) && this.#isTrusted(length - end.length, length);
  }

  /** The prompt with trusted text in front. */
  withStart(start: string): PromptText {
    return new PromptText({
      text: start + this.text,
      untrusted: this.#untrusted.map((boundary) => boundary + start.length),
    });
  }

  /** The prompt with trusted text in place of the white space at its end. */
  withEnd(end: string): PromptText {
    const { length } = this.text.trimEnd();
    const untrusted = this.#untrusted.map((boundary) => Math.min(boundary, length));
    return new PromptText({ text: this.text.slice(0, length) + end, untrusted });
  }

  /** The prompt with trusted text behind it. */
  withTrusted(end: string): PromptText {
    return new PromptText({ text: this.text + end, untrusted: this.#untrusted });
  }

  segments(): readonly PromptSegment[] {
    const segments: PromptSegment[] = [];
    const add = (from: number, to: number, parseSpecial: boolean): void => {
      if (to > from) segments.push({ text: this.text.slice(from, to), parseSpecial });
    };
    let from = 0;
    for (let at = 0; at < this.#untrusted.length; at += 2) {
      const [start, end] = [this.#untrusted[at], this.#untrusted[at + 1]];
      add(from, start, true);
      add(start, end, false);
      from = end;
    }
    add(from, this.text.length, true);
    return segments;
  }

  #isTrusted(from: number, to: number): boolean {
    return !this.#untrusted.some(
      (start, at) => at % 2 === 0 && start < to && this.#untrusted[at + 1] > from && start < this.#untrusted[at + 1],
    );
  }
}
