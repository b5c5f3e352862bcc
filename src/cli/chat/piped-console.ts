// A conversation over a pipe or a file: each line is a message, and stdout has only the answers. Lines are split here,
// because readline does not limit their length.

import { StringDecoder } from "node:string_decoder";
import type { Readable } from "node:stream";
import type { Output } from "../output.js";
import type { AnswerLook } from "./answer-view.js";
import type { ChatConsole } from "./console.js";
import { MAX_MESSAGE_CHARACTERS, type Message, MessageAssembly, messageTooLong } from "./message-assembly.js";

interface PipedConsoleOptions {
  readonly input: Readable;
  readonly output: Output;
  /** Aborted when the program ends. */
  readonly signal: AbortSignal;
}

/** Reads messages from a pipe or a file. */
export class PipedConsole implements ChatConsole {
  readonly isInteractive = false;
  readonly look: AnswerLook;
  readonly #input: Readable;
  readonly #output: Output;
  readonly #signal: AbortSignal;
  readonly #lines: AsyncGenerator<string, void, undefined>;
  readonly #assembly = new MessageAssembly();

  constructor({ input, output, signal }: PipedConsoleOptions) {
    this.#input = input;
    this.#output = output;
    this.look = { reasoning: "hidden", isTerminal: output.isTerminal };
    this.#signal = signal;
    this.#lines = linesOf(input, signal);
  }

  async next(): Promise<Message | undefined> {
    while (!this.#signal.aborted) {
      const { done, value } = await this.#lines.next();
      if (done === true) return this.#signal.aborted ? undefined : this.#assembly.finish();
      const message = this.#assembly.push(value);
      if (message !== undefined) return message;
    }
    return undefined;
  }

  async agrees(): Promise<boolean> {
    return false;
  }

  async whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    return await work(this.#signal);
  }

  async write(text: string): Promise<void> {
    await this.#output.write(text);
  }

  note(text: string): void {
    process.stderr.write(`rocmforge: ${text}\n`);
  }

  /** Closes the input: an open pipe would keep the process alive. */
  [Symbol.dispose](): void {
    this.#input.destroy();
  }
}

async function* linesOf(input: Readable, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
  // Destroying the stream ends the loop below, whatever the writer does.
  const stop = (): void => void input.destroy();
  signal.addEventListener("abort", stop, { once: true });
  const decoder = new StringDecoder("utf8");
  let parts: string[] = [];
  let characters = 0;
  const take = (last: string): string => {
    const line = parts.join("") + last;
    parts = [];
    characters = 0;
    return line.endsWith("\r") ? line.slice(0, -1) : line;
  };
  try {
    for await (const chunk of input as AsyncIterable<Buffer>) {
      const deltas = decoder.write(chunk).split("\n");
      const rest = deltas.pop() ?? "";
      for (const delta of deltas) yield take(delta);
      parts.push(rest);
      characters += rest.length;
      if (characters > MAX_MESSAGE_CHARACTERS) throw messageTooLong();
    }
    const last = take(decoder.end());
    if (last !== "") yield last;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
