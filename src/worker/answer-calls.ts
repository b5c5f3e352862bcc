// The inner side of a LimitedWorker: a worker module calls this once, at its end, with the function that answers. What
// the function throws is sent back as text; if it does not return in time, the outer side terminates the thread.

import { parentPort } from "node:worker_threads";
import { type ThreadReply, Transferred } from "./call-message.js";
import { startGarbageChecks } from "./garbage.js";

const MAX_MESSAGE_CHARACTERS = 4000;

/** Answers the calls of a LimitedWorker with a function; call it once in the worker's module. */
export function answerCalls<Question, Answer>(
  answer: (question: Question) => Answer | Transferred<Answer> | Promise<Answer | Transferred<Answer>>,
): void {
  const port = parentPort;
  if (port === null) throw new Error("answerCalls must be called in a worker thread");
  discardOutput();
  const reply = (message: ThreadReply): void => port.postMessage(message);
  const work = async (question: Question): Promise<void> => {
    try {
      const value = await answer(question);
      if (value instanceof Transferred)
        port.postMessage({ kind: "answer", value: value.value } satisfies ThreadReply, value.buffers);
      else reply({ kind: "answer", value });
    } catch (error) {
      reply({ kind: "thrown", ...describe(error) });
    }
  };
  port.on("message", (question: Question) => void work(question));
  startGarbageChecks();
  reply({ kind: "ready" });
}

/**
 * Drops what the thread prints. It has no terminal, and output that waits to be read, or a reader that waits for output,
 * would keep the process alive.
 */
function discardOutput(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.write = (_chunk: unknown, ...rest: readonly unknown[]): boolean => {
      const done = rest.at(-1);
      if (typeof done === "function") process.nextTick(done);
      return true;
    };
}

function describe(error: unknown): { readonly name: string; readonly message: string } {
  const [name, message] = error instanceof Error ? [error.name, error.message] : ["Error", String(error)];
  return { name, message: String(message).slice(0, MAX_MESSAGE_CHARACTERS) };
}
