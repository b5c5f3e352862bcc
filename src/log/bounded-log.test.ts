import { describe, expect, it } from "vitest";
import { BoundedLog, type LogSink } from "./bounded-log.js";

type Done = (error: Error | null, writtenBytes: number) => void;

/** A destination that takes what a test lets it take. */
class FakeSink implements LogSink {
  text = "";
  attempts = 0;
  /** Bytes that are taken, or why none are. */
  takes: number | string = Infinity;
  waiting: (() => void) | undefined;
  isSlow = false;

  write(bytes: Buffer, done: Done): void {
    this.attempts++;
    const answer = (): void => {
      if (typeof this.takes === "string") return done(Object.assign(new Error("no"), { code: this.takes }), 0);
      const taken = bytes.subarray(0, this.takes);
      this.text += taken.toString();
      done(null, taken.length);
    };
    if (this.isSlow) this.waiting = answer;
    else answer();
  }
}

function createLog(sink: LogSink, format?: (line: string) => string): BoundedLog {
  return new BoundedLog({
    sink,
    droppedText: (lines) => `dropped ${lines}\n`,
    ...(format === undefined ? {} : { format }),
  });
}

const LONG_LINE = `${"x".repeat(100_000)}\n`;

describe("BoundedLog", () => {
  it("writes lines in order, those of one turn at once", async () => {
    const sink = new FakeSink();
    const log = createLog(sink, (line) => `> ${line}`);
    log.write("one\n");
    log.write("two\n");
    expect(await log.flush(1000)).toBe(true);
    expect(sink).toMatchObject({ text: "> one\n> two\n", attempts: 1 });
  });

  it("continues after a short write", async () => {
    const sink = new FakeSink();
    const log = createLog(sink);
    sink.takes = 3;
    log.write("one line\n");
    log.write("another\n");
    expect(await log.flush(1000)).toBe(true);
    expect(sink.text).toBe("one line\nanother\n");
  });

  it("drops what does not fit, counts it, and says so when lines are taken again", async () => {
    const sink = new FakeSink();
    const log = createLog(sink);
    sink.takes = "EAGAIN";
    for (let count = 0; count < 15; count++) log.write(LONG_LINE);
    expect(log.droppedLines).toBe(5);
    expect(await log.flush(50)).toBe(false);
    sink.takes = Infinity;
    expect(await log.flush(5000)).toBe(true);
    expect(sink.text).toHaveLength(10 * LONG_LINE.length + "dropped 5\n".length);
    expect(sink.text).toContain("\ndropped 5\n");
    log.write("later\n");
    expect(await log.flush(1000)).toBe(true);
    expect(sink.text.endsWith("later\n")).toBe(true);
    expect(log.droppedLines).toBe(5);
  });

  it("keeps lines through a failure and tries again, but not all the time", async () => {
    const sink = new FakeSink();
    const log = createLog(sink);
    sink.takes = "ENOSPC";
    log.write("one\n");
    await log.flush(50);
    for (let count = 0; count < 100; count++) log.write("more\n");
    await log.flush(50);
    expect(sink.attempts).toBe(1);
    sink.takes = Infinity;
    expect(await log.flush(5000)).toBe(true);
    expect(sink.text).toBe(`one\n${"more\n".repeat(100)}`);
  });

  it("takes one line of any length, and waits for a destination that is busy with it", async () => {
    const sink = new FakeSink();
    sink.isSlow = true;
    const log = createLog(sink);
    log.write(`${"y".repeat(3 * 2 ** 20)}\n`);
    log.write("after\n");
    expect(log.droppedLines).toBe(1);
    expect(await log.flush(20)).toBe(false);
    expect(sink.attempts).toBe(1);
    sink.isSlow = false;
    sink.waiting?.();
    expect(await log.flush(1000)).toBe(true);
    expect(sink.text.length).toBe(3 * 2 ** 20 + 1 + "dropped 1\n".length);
  });
});
