// What a conversation needs of its surroundings: messages come in, text goes out. Behind it stand a terminal, a pipe, or
// a test.

import type { AnswerLook } from "./answer-view.js";
import type { Message } from "./message-assembly.js";

export interface ChatConsole extends Disposable {
  /** Somebody sits there: what goes wrong is told and the conversation goes on, and questions get answers. */
  readonly isInteractive: boolean;
  readonly look: AnswerLook;
  /** The next message; undefined when there will be none. */
  next(): Promise<Message | undefined>;
  /** False where nobody can be asked. */
  agrees(question: string): Promise<boolean>;
  /** Aborted when the user has seen enough; what runs then ends, and the conversation goes on where it can. */
  whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Answers, and what was asked for. */
  write(text: string): Promise<void>;
  /** What the user should know beside that. */
  note(text: string): void;
}
