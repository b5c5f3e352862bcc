// Shows an answer as it is generated: reasoning is set apart, surrounding white space is dropped, and control
// characters that a terminal would execute are not printed.

import { printable } from "../format.js";

type DeltaKind = "text" | "reasoning";

/** Text that an answer adds: reasoning or the answer itself. */
export interface AnswerDelta {
  readonly kind: DeltaKind;
  readonly text: string;
}

/** How answers are displayed. */
export interface AnswerLook {
  /** How reasoning is shown; hidden if only the answer should be printed. */
  readonly reasoning: "dimmed" | "marked" | "hidden";
  /** Whether the output is a terminal, which must not receive control characters of the model. */
  readonly isTerminal: boolean;
}

const DIM = "\u001b[2m";
const NOT_DIM = "\u001b[22m";
const OPENERS = { dimmed: DIM, marked: "[thinking]\n", hidden: "" } as const;
const CLOSERS = { dimmed: NOT_DIM, marked: "\n[answer]", hidden: "" } as const;

/** Prints one answer delta by delta. */
export class AnswerView {
  readonly #look: AnswerLook;
  readonly #write: (text: string) => Promise<void>;
  #kind: DeltaKind | undefined;
  /** White space that is printed only if more text follows. */
  #blank = "";
  #isBegun = false;

  constructor(look: AnswerLook, write: (text: string) => Promise<void>) {
    this.#look = look;
    this.#write = write;
  }

  /** Whether text was printed, so that there is a line to end. */
  get isBegun(): boolean {
    return this.#isBegun;
  }

  async push({ kind, text }: AnswerDelta): Promise<void> {
    if (kind === "reasoning" && this.#look.reasoning === "hidden") return;
    const whole = this.#blank + text;
    const solid = whole.trimEnd();
    if (solid === "") {
      this.#blank = this.#isBegun ? whole : "";
      return;
    }
    this.#blank = whole.slice(solid.length);
    const turned = kind === this.#kind ? "" : this.#turnTo(kind);
    const shown = this.#isBegun && turned === "" ? solid : solid.trimStart();
    this.#isBegun = true;
    await this.#write(turned + (this.#look.isTerminal ? printable(shown, "layout") : shown));
  }

  /** Ends the last line and resets its style. */
  async end(): Promise<void> {
    const isDim = this.#kind === "reasoning" && this.#look.reasoning === "dimmed";
    await this.#write(isDim ? `${NOT_DIM}\n` : "\n");
  }

  #turnTo(kind: DeltaKind): string {
    const before = this.#kind;
    this.#kind = kind;
    const closing = before === "reasoning" ? CLOSERS[this.#look.reasoning] : "";
    const gap = before === undefined ? "" : "\n\n";
    const opening = kind === "reasoning" ? OPENERS[this.#look.reasoning] : "";
    return `${closing}${gap}${opening}`;
  }
}
