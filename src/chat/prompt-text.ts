// A rendered prompt with its provenance: which of its characters the template wrote, and which came from outside. Only
// the former may become control tokens; the segments say so to the tokenizer.

/** What a template wrote, and where in it text from outside begins and ends: start, end, start, end … */
export interface RenderedText {
  readonly text: string;
  readonly untrusted: readonly number[];
}

const CHARACTERS_OF_BORDER = 4;

/** The memory of a rendered text, in characters; a border takes as much as a few of them. */
export function renderedCharacters({ text, untrusted }: RenderedText): number {
  return text.length + CHARACTERS_OF_BORDER * untrusted.length;
}

/** A stretch of a prompt, as the tokenizer takes it. */
export interface PromptSegment {
  readonly text: string;
  /** Whether the text of a control token in it becomes that token. */
  readonly parseSpecial: boolean;
}

export class PromptText {
  readonly text: string;
  /** Where text from outside begins and ends: start, end, start, end … */
  readonly #untrusted: readonly number[];

  constructor({ text, untrusted }: RenderedText) {
    this.text = text;
    this.#untrusted = untrusted;
  }

  /** Whether it begins so, in the template's own words. */
  startsWith(start: string): boolean {
    return this.text.startsWith(start) && this.#isTrusted(0, start.length);
  }

  /** Whether it ends so but for white space, in the template's own words. */
  endsWith(end: string): boolean {
    const { length } = this.text.trimEnd();
    return this.text.slice(0, length).endsWith(end) && this.#isTrusted(length - end.length, length);
  }

  /** With words of the program's own in front. */
  withStart(start: string): PromptText {
    return new PromptText({
      text: start + this.text,
      untrusted: this.#untrusted.map((border) => border + start.length),
    });
  }

  /** Without white space at the end, and with words of the program's own there. */
  withEnd(end: string): PromptText {
    const { length } = this.text.trimEnd();
    const untrusted = this.#untrusted.map((border) => Math.min(border, length));
    return new PromptText({ text: this.text.slice(0, length) + end, untrusted });
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
