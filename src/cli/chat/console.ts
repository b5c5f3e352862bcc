// What a conversation needs of its input and output. A terminal, a pipe or a test is behind it.
// Messages come in, text goes out.

import type { AnswerLook } from "./answer-view.js";
import type { Message } from "./message-assembly.js";

export interface ChatConsole extends Disposable {
  /** A user is at a terminal: failures are reported and the conversation goes on, and questions can be asked. */
  readonly isInteractive: boolean;
  readonly look: AnswerLook;
  /** The next message; undefined after the last. */
  next(): Promise<Message | undefined>;
  /** False if no user can be asked. */
  agrees(question: string): Promise<boolean>;
  /** Aborted when the user stops the answer; the conversation goes on if it can. */
  whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Prints answers, and what a command asked for. */
  write(text: string): Promise<void>;
  /** Prints remarks for the user beside those. */
  note(text: string): void;
}
