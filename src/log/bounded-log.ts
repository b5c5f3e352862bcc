// A log that never blocks its process: lines wait in a bounded queue while their destination cannot take them, and those
// that do not fit are dropped and counted. Invariants: `write` returns at once and never throws; a line is written whole
// or not at all, in order; the number of dropped lines is written as soon as the destination takes lines again.

/** Where a log's bytes go; it must never block. */
export interface LogSink {
  /** Calls back once, at once or later, with the number of bytes that were taken. EAGAIN is an error like the others. */
  write(bytes: Buffer, done: (error: Error | null, writtenBytes: number) => void): void;
}

/** Where a server's log goes: pino's destination, which may know how many lines it has dropped. */
export interface LogDestination {
  write(line: string): void;
  readonly droppedLines?: number;
}

export interface BoundedLogOptions {
  readonly sink: LogSink;
  /** A line as it is shown, made of a line as it came. */
  readonly format?: (line: string) => string;
  /** The line that tells how many were dropped, in the form of the others. */
  readonly droppedText: (lines: number) => string;
}

/** One line alone is always accepted: its size is bounded by the server's limits. */
const MAX_QUEUED_BYTES = 2 ** 20;
/** Lines of one write: fewer system calls, and no copy of the whole queue. */
const BATCH_BYTES = 65_536;
/** A pipe whose reader is slow, or a terminal that is stopped. */
const BUSY_RETRY_MS = 20;
/** A full disk, a closed pipe. */
const FAILED_RETRY_MS = 1000;

export class BoundedLog implements LogDestination {
  readonly #sink: LogSink;
  readonly #format: (line: string) => string;
  readonly #droppedText: (lines: number) => string;
  #lines: Buffer[] = [];
  #queuedBytes = 0;
  /** The batch that is being written, and what is left of it. */
  #rest: Buffer | undefined;
  #isWriting = false;
  #scheduled: NodeJS.Timeout | NodeJS.Immediate | undefined;
  #droppedLines = 0;
  #reportedDrops = 0;
  #whenEmpty: (() => void)[] = [];

  constructor({ sink, format, droppedText }: BoundedLogOptions) {
    this.#sink = sink;
    this.#format = format ?? ((line) => line);
    this.#droppedText = droppedText;
  }

  get droppedLines(): number {
    return this.#droppedLines;
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0 && this.#rest === undefined;
  }

  write(line: string): void {
    const bytes = Buffer.from(this.#format(line));
    if (this.#queuedBytes > 0 && this.#queuedBytes + bytes.length > MAX_QUEUED_BYTES) {
      this.#droppedLines++;
      return;
    }
    this.#enqueue(bytes);
    this.#schedule(0);
  }

  /** Resolves when everything is written, or after so long: true where everything was. */
  async flush(timeoutMs: number): Promise<boolean> {
    if (!this.isEmpty) {
      this.#schedule(0);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#whenEmpty.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return this.isEmpty;
  }

  #enqueue(bytes: Buffer): void {
    this.#lines.push(bytes);
    this.#queuedBytes += bytes.length;
  }

  /** Lines of one turn of the event loop are written together; a log that waits to try again does not keep the process alive. */
  #schedule(afterMs: number): void {
    if (this.#isWriting || this.#scheduled !== undefined) return;
    const begin = (): void => {
      this.#scheduled = undefined;
      this.#write();
    };
    this.#scheduled = afterMs === 0 ? setImmediate(begin) : setTimeout(begin, afterMs).unref();
  }

  #write(): void {
    this.#rest ??= this.#nextBatch();
    if (this.#rest === undefined) {
      for (const resolve of this.#whenEmpty.splice(0)) resolve();
      return;
    }
    this.#isWriting = true;
    this.#sink.write(this.#rest, (error, writtenBytes) => {
      this.#isWriting = false;
      this.#taken(writtenBytes);
      if (error === null) this.#write();
      else this.#schedule("code" in error && error.code === "EAGAIN" ? BUSY_RETRY_MS : FAILED_RETRY_MS);
    });
  }

  #taken(writtenBytes: number): void {
    if (this.#rest === undefined) return;
    this.#queuedBytes -= writtenBytes;
    this.#rest = writtenBytes < this.#rest.length ? this.#rest.subarray(writtenBytes) : undefined;
    // The destination takes lines again: it is told of those that it did not get.
    if (writtenBytes === 0 || this.#droppedLines === this.#reportedDrops) return;
    this.#enqueue(Buffer.from(this.#format(this.#droppedText(this.#droppedLines - this.#reportedDrops))));
    this.#reportedDrops = this.#droppedLines;
  }

  #nextBatch(): Buffer | undefined {
    let bytes = 0;
    let count = 0;
    while (count < this.#lines.length && (count === 0 || bytes + this.#lines[count].length <= BATCH_BYTES))
      bytes += this.#lines[count++].length;
    if (count === 0) return undefined;
    return Buffer.concat(this.#lines.splice(0, count), bytes);
  }
}
