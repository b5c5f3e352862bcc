// The input and output of a conversation, implemented for a terminal, for a pipe and for tests.

import type { AnswerLook } from "./answer-view.js";
import type { Message } from "./message-assembly.js";

/** Where messages come from and answers go. */
export interface ChatConsole extends Disposable {
  /**
   * Whether a user sits at a terminal: then failures are reported, the conversation continues, and questions can be
   * asked.
   */
  readonly isInteractive: boolean;
  readonly look: AnswerLook;
  /** The next message; undefined after the last. */
  next(): Promise<Message | undefined>;
  /** Asks a yes-or-no question; false if no user can be asked. */
  agrees(question: string): Promise<boolean>;
  /** Runs `work` with a signal that aborts when the user stops the answer; the conversation continues if it can. */
  whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Prints answers and the output of commands. */
  write(text: string): Promise<void>;
  /** Prints a remark for the user, apart from answers. */
  note(text: string): void;
}
