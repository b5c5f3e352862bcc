// A log that never blocks its process: lines wait in a bounded queue while their destination is busy, and lines that do
// not fit are dropped and counted. Invariants: `write` returns immediately and never throws; a line is written whole or
// not at all, in order; the number of dropped lines is logged as soon as the destination accepts lines again.

/** The destination of a log's bytes; it must never block. */
export interface LogSink {
  /**
   * Calls back once, synchronously or later, with the number of bytes written. EAGAIN is reported like any other error.
   */
  write(bytes: Buffer, done: (error: Error | null, writtenBytes: number) => void): void;
}

/** The destination of a server's log, as pino expects it, which may count the lines it has dropped. */
export interface LogDestination {
  write(line: string): void;
  readonly droppedLines?: number;
}

/** Options of a bounded log. */
interface BoundedLogOptions {
  readonly sink: LogSink;
  /** Formats a line for display. */
  readonly format?: (line: string) => string;
  /** The line that reports how many lines were dropped, in the format of the others. */
  readonly droppedText: (lines: number) => string;
}

/** The queue's size limit. A single line is always accepted: the server's limits bound its size. */
const MAX_QUEUED_BYTES = 2 ** 20;
/** The size of one write: fewer system calls without copying the whole queue. */
const BATCH_BYTES = 65_536;
/** Delay before a retry if a pipe's reader is slow or a terminal is stopped. */
const BUSY_RETRY_MS = 20;
/** Delay before a retry after a failure such as a full disk or a closed pipe. */
const FAILED_RETRY_MS = 1000;

/** A log with a bounded queue that drops lines instead of blocking. */
export class BoundedLog implements LogDestination {
  readonly #sink: LogSink;
  readonly #format: (line: string) => string;
  readonly #droppedText: (lines: number) => string;
  #lines: Buffer[] = [];
  #queuedBytes = 0;
  /** The part of the current batch that is not written yet. */
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

  /** Resolves with true when everything is written, or with false after `timeoutMs`. */
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

  /**
   * Schedules a write: lines of one turn of the event loop are written together, and a pending retry does not keep the
   * process alive.
   */
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
    // The destination accepts lines again: report those that were dropped.
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
