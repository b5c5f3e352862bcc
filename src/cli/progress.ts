// Progress on stderr for work that takes more than a second; shorter work prints nothing. A terminal shows one line
// that is rewritten; anything else receives plain lines, at most one per second.

import { formatDuration } from "./format.js";

const SILENT_MS = 1000;
const TERMINAL_INTERVAL_MS = 100;
const PLAIN_INTERVAL_MS = 1000;
/** The interval at which an unchanged line is repeated in a log. */
const PLAIN_REPEAT_MS = 10_000;
const ERASE_LINE = "\r\u001b[K";

/** The stream that progress is written to. */
interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Progress of one task on stderr. */
export class Progress implements Disposable {
  readonly #stream: ProgressStream;
  readonly #start = performance.now();
  readonly #heartbeat: NodeJS.Timeout;
  #text: string;
  #shownText: string | undefined;
  #shownAt = Number.NEGATIVE_INFINITY;
  #ended = false;

  constructor(text: string, stream: ProgressStream = process.stderr) {
    this.#text = text;
    this.#stream = stream;
    // Work that reports rarely still shows that it is running.
    this.#heartbeat = setInterval(() => this.#show(), PLAIN_INTERVAL_MS).unref();
  }

  update(text: string): void {
    this.#text = text;
    this.#show();
  }

  /** Prints immediately, before work that blocks the thread until it is done. */
  announce(text: string): void {
    this.#text = text;
    this.#write(text);
  }

  /** Prints lines that stay, above the progress. */
  note(text: string): void {
    if (this.#shownText !== undefined && this.#stream.isTTY === true) this.#stream.write(ERASE_LINE);
    this.#shownText = undefined;
    for (const line of text.split("\n")) this.#stream.write(`rocmforge: ${line}\n`);
  }

  /** Clears the line on a terminal for other output; nothing is printed afterwards. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#heartbeat);
    if (this.#shownText !== undefined && this.#stream.isTTY === true) this.#stream.write(ERASE_LINE);
  }

  [Symbol.dispose](): void {
    this.end();
  }

  #show(): void {
    const now = performance.now();
    if (this.#ended || now - this.#start < SILENT_MS || now - this.#shownAt < this.#interval()) return;
    this.#write(`${this.#text}, ${formatDuration(now - this.#start)}`);
  }

  #write(text: string): void {
    const line = `rocmforge: ${text}`;
    this.#stream.write(this.#stream.isTTY === true ? `${ERASE_LINE}${line}` : `${line}\n`);
    this.#shownAt = performance.now();
    this.#shownText = this.#text;
  }

  #interval(): number {
    if (this.#stream.isTTY === true) return TERMINAL_INTERVAL_MS;
    return this.#text === this.#shownText ? PLAIN_REPEAT_MS : PLAIN_INTERVAL_MS;
  }
}
