// Standard output for the commands. If its reader closes the pipe (`| head`), the command ends quietly; any other
// failure, such as a full disk, is an error.

import type { Writable } from "node:stream";
import { FileError } from "../errors.js";
import { systemFailureText } from "../system-failure.js";

/** Standard output, or another stream, for a command. */
export class Output {
  readonly #stream: Writable;
  readonly #gone = new AbortController();

  constructor(stream: Writable) {
    this.#stream = stream;
    // Failures are reported to the writer's callback; without a listener they would also crash the process.
    stream.on("error", () => {});
  }

  /** Whether output goes to a terminal, so that control characters in a model's text must be escaped. */
  get isTerminal(): boolean {
    return "isTTY" in this.#stream && this.#stream.isTTY === true;
  }

  /** Aborted when the reader has closed the pipe. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Resolves when the text has been written, so that a slow reader slows the writer down. */
  async write(text: string): Promise<void> {
    if (text === "" || this.#gone.signal.aborted) return;
    const error = await new Promise<Error | null | undefined>((resolve) => {
      this.#stream.write(text, resolve);
    });
    if (error === null || error === undefined) return;
    const reason = "code" in error ? String(error.code) : error.message;
    if (reason === "EPIPE" || reason === "ERR_STREAM_DESTROYED") {
      this.#gone.abort();
      return;
    }
    throw new FileError("FILE_WRITE", `[stdout] could not be written: ${systemFailureText(error)}`, {
      details: { reason },
      cause: error,
    });
  }

  async writeJson(value: unknown): Promise<void> {
    await this.write(`${JSON.stringify(value, undefined, 2)}\n`);
  }
}
