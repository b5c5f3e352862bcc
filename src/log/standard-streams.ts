// Standard output and standard error as log destinations that never block, by the kind of stream: a file or a device is
// written on Node's thread pool, a pipe or a terminal through a separate non-blocking descriptor, and anything else by
// Node, which does not block on sockets. An unread pipe, a terminal stopped by Ctrl-S and a full disk only fill the
// queue of a BoundedLog.

import { constants, fstatSync, openSync, type Stats, write, writeSync } from "node:fs";
import { isatty } from "node:tty";
import { BoundedLog, type LogSink } from "./bounded-log.js";
import type { LogFormat } from "./log-format.js";
import { prettyLine } from "./pretty-line.js";

type StandardDescriptor = 1 | 2;

const STANDARD_OUTPUT = 1;
const STANDARD_ERROR = 2;
/** pino's number for "warn". */
const WARN_LEVEL = 40;

let errorLogFormat: LogFormat = "auto";
const logs = new Map<StandardDescriptor, BoundedLog>();

/** Sets the format of the log on standard error; before this it is "auto". */
export function setErrorLogFormat(format: LogFormat): void {
  errorLogFormat = format;
}

/** The one log of this process on standard error, in the format that `setErrorLogFormat` sets. */
export function standardErrorLog(): BoundedLog {
  return logOf(STANDARD_ERROR);
}

/** A log on standard output that does not wait for its reader. */
export function standardOutputLog(): BoundedLog {
  return logOf(STANDARD_OUTPUT);
}

/** Resolves when both logs are written, or after `timeoutMs`. */
export async function flushStandardLogs(timeoutMs: number): Promise<void> {
  await Promise.all(Array.from(logs.values(), (log) => log.flush(timeoutMs)));
}

function logOf(descriptor: StandardDescriptor): BoundedLog {
  const known = logs.get(descriptor);
  if (known !== undefined) return known;
  const log = new BoundedLog({
    sink: sinkOf(descriptor),
    droppedText,
    ...(descriptor === STANDARD_ERROR ? { format: errorLine } : {}),
  });
  logs.set(descriptor, log);
  return log;
}

/** A line for standard error. Lines are pretty or not by the format at the time, colours by what the terminal has. */
function errorLine(line: string): string {
  const isTerminal = isatty(STANDARD_ERROR);
  if (errorLogFormat === "json" || (errorLogFormat === "auto" && !isTerminal)) return line;
  // `hasColors` respects NO_COLOR, FORCE_COLOR and TERM=dumb.
  return prettyLine(line, isTerminal && process.stderr.hasColors());
}

function droppedText(dropped: number): string {
  return `${JSON.stringify({ level: WARN_LEVEL, time: Date.now(), dropped, msg: "log lines were dropped because their destination was busy" })}\n`;
}

function sinkOf(descriptor: StandardDescriptor): LogSink {
  const stats = statsOf(descriptor);
  if (stats === undefined) return { write: (bytes, done) => done(null, bytes.length) };
  const isTerminal = isatty(descriptor);
  if (stats.isFile() || (stats.isCharacterDevice() && !isTerminal)) return fileSink(descriptor);
  const reopened = stats.isFIFO() || isTerminal ? reopen(descriptor) : undefined;
  return reopened === undefined ? streamSink(descriptor) : nonBlockingSink(reopened);
}

/** The descriptor's stats; undefined if it is closed. */
function statsOf(descriptor: number): Stats | undefined {
  try {
    return fstatSync(descriptor);
  } catch {
    return undefined;
  }
}

/**
 * Opens the same pipe or terminal again, because O_NONBLOCK applies to the open file description, which other processes
 * share. Undefined if the system has no path for it, or the process may not open it.
 */
function reopen(descriptor: number): number | undefined {
  try {
    return openSync(`/proc/self/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}

function fileSink(descriptor: number): LogSink {
  return {
    write: (bytes, done) =>
      write(descriptor, bytes, 0, bytes.length, null, (error, written) => done(error, written ?? 0)),
  };
}

function nonBlockingSink(descriptor: number): LogSink {
  return {
    write: (bytes, done) => {
      let written: number;
      try {
        written = writeSync(descriptor, bytes, 0, bytes.length, null);
      } catch (error) {
        done(error instanceof Error ? error : new Error(String(error)), 0);
        return;
      }
      done(null, written);
    },
  };
}

function streamSink(descriptor: StandardDescriptor): LogSink {
  const stream = descriptor === STANDARD_ERROR ? process.stderr : process.stdout;
  // Failures are reported to the callback; without a listener they would also crash the process.
  stream.on("error", () => {});
  return {
    write: (bytes, done) => void stream.write(bytes, (error) => (error ? done(error, 0) : done(null, bytes.length))),
  };
}
