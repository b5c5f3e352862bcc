// Assembles messages from lines: a line is a message, unless it ends in a backslash and continues, or """ opens a block
// that """ closes. Invariant: the buffered text is bounded.

import { FileError } from "../../errors.js";
import { formatCount } from "../format.js";

/** A message as the user entered it. */
export interface Message {
  readonly text: string;
  /** Whether the text is literal: a leading slash does not make it a command. */
  readonly verbatim: boolean;
}

/** Far longer than any context; a message is held in memory as text and as tokens. */
export const MAX_MESSAGE_CHARACTERS = 2 ** 24;

const BLOCK = '"""';
const CONTINUED = "\\";

/** Assembles messages line by line. */
export class MessageAssembly {
  #lines: string[] = [];
  #characters = 0;
  #state: "empty" | "continued" | "block" = "empty";

  /** Whether a message has started and not ended. */
  get isOpen(): boolean {
    return this.#state !== "empty";
  }

  /** Returns the message that this line completes; undefined while it continues, and for an empty line. */
  push(line: string): Message | undefined {
    this.#characters += line.length + 1;
    if (this.#characters > MAX_MESSAGE_CHARACTERS) {
      this.discard();
      throw messageTooLong();
    }
    if (this.#state === "block") return this.#pushToBlock(line);
    if (this.#state === "empty" && line.trimStart().startsWith(BLOCK)) {
      this.#state = "block";
      const rest = line.trimStart().slice(BLOCK.length);
      return rest.trim() === "" ? undefined : this.#pushToBlock(rest);
    }
    return this.#pushLine(line);
  }

  /** Returns the unfinished message at the end of the input. */
  finish(): Message | undefined {
    return this.isOpen ? this.#take() : undefined;
  }

  discard(): void {
    this.#lines = [];
    this.#characters = 0;
    this.#state = "empty";
  }

  #pushToBlock(line: string): Message | undefined {
    const end = line.trimEnd();
    if (!end.endsWith(BLOCK)) {
      this.#lines.push(line);
      return undefined;
    }
    const last = end.slice(0, -BLOCK.length);
    if (last.trim() !== "") this.#lines.push(last);
    return this.#take();
  }

  #pushLine(line: string): Message | undefined {
    if (line.endsWith(CONTINUED) && !line.endsWith(CONTINUED + CONTINUED)) {
      this.#lines.push(line.slice(0, -CONTINUED.length));
      this.#state = "continued";
      return undefined;
    }
    // Two backslashes stand for one, so that a message can end in it.
    this.#lines.push(line.endsWith(CONTINUED) ? line.slice(0, -CONTINUED.length) : line);
    return this.#take();
  }

  #take(): Message | undefined {
    const text = this.#lines.join("\n");
    const verbatim = this.#state === "block";
    this.discard();
    return text.trim() === "" ? undefined : { text, verbatim };
  }
}

/** The error for a message over the limit. */
export function messageTooLong(): FileError {
  return new FileError(
    "FILE_UNREADABLE",
    `[chat] expected messages of at most ${formatCount(MAX_MESSAGE_CHARACTERS)} characters, found a longer one; split it`,
    { details: { maxCharacters: MAX_MESSAGE_CHARACTERS } },
  );
}
