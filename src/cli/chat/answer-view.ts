// An answer on its way to the reader: reasoning set apart, blank space around it left out, and on a terminal nothing that
// the terminal would obey.

import { printable } from "../format.js";

export type PieceKind = "text" | "reasoning";

export interface AnswerDelta {
  readonly kind: PieceKind;
  readonly text: string;
}

export interface AnswerLook {
  /** How reasoning is told from the answer; hidden where only the answer is wanted. */
  readonly reasoning: "dimmed" | "marked" | "hidden";
  /** The reader is a terminal, which must not take orders from a model. */
  readonly isTerminal: boolean;
}

const DIM = "\u001b[2m";
const NOT_DIM = "\u001b[22m";
const OPENERS = { dimmed: DIM, marked: "[thinking]\n", hidden: "" } as const;
const CLOSERS = { dimmed: NOT_DIM, marked: "\n[answer]", hidden: "" } as const;

export class AnswerView {
  readonly #look: AnswerLook;
  readonly #write: (text: string) => Promise<void>;
  #kind: PieceKind | undefined;
  /** White space that is shown only if something follows. */
  #blank = "";
  #isBegun = false;

  constructor(look: AnswerLook, write: (text: string) => Promise<void>) {
    this.#look = look;
    this.#write = write;
  }

  /** Something was shown, so that there is a line to end. */
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

  /** Ends the last line, and whatever look it had. */
  async end(): Promise<void> {
    const isDim = this.#kind === "reasoning" && this.#look.reasoning === "dimmed";
    await this.#write(isDim ? `${NOT_DIM}\n` : "\n");
  }

  #turnTo(kind: PieceKind): string {
    const before = this.#kind;
    this.#kind = kind;
    const closing = before === "reasoning" ? CLOSERS[this.#look.reasoning] : "";
    const gap = before === undefined ? "" : "\n\n";
    const opening = kind === "reasoning" ? OPENERS[this.#look.reasoning] : "";
    return `${closing}${gap}${opening}`;
  }
}
