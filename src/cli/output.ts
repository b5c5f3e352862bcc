// Standard output as the commands see it. A reader that goes away (`| head`) ends the work quietly; any other failure,
// such as a full disk, is an error like the rest.

import type { Writable } from "node:stream";
import { FileError } from "../errors.js";
import { systemFailureText } from "../system-failure.js";

export class Output {
  readonly #stream: Writable;
  readonly #gone = new AbortController();

  constructor(stream: Writable) {
    this.#stream = stream;
    // Failures reach whoever writes through the callback; without a listener they would also end the process.
    stream.on("error", () => {});
  }

  /** Then it must not take orders from a text that a model wrote. */
  get isTerminal(): boolean {
    return "isTTY" in this.#stream && this.#stream.isTTY === true;
  }

  /** Aborted when nobody reads any more. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Resolves when the text has been handed over, so that a slow reader slows the writer. */
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
