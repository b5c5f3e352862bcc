// Text from a file, a pipe or stdin, read in chunks so that endless input is refused instead of filling memory. Bytes
// that are not UTF-8 become U+FFFD.

import { createReadStream } from "node:fs";
import { FileError, type RocmForgeError } from "../errors.js";
import { limitReached, systemFailure, systemFailureText } from "../system-failure.js";
import { formatBytes } from "./format.js";

/** The longest text: it is held in memory with its tokens, and a JavaScript string ends at 2^29 characters. */
const MAX_TEXT_BYTES = 256 * 1024 * 1024;
/** The path that means stdin. */
const STDIN_NAME = "-";

/** Reads a whole text from a file or stdin. */
export async function readText(path: string): Promise<string> {
  const stream = path === STDIN_NAME ? process.stdin : createReadStream(path);
  const where = path === STDIN_NAME ? "stdin" : path;
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > MAX_TEXT_BYTES) throw tooLong(where);
      chunks.push(chunk);
    }
  } catch (error) {
    throw error instanceof FileError ? error : readFailure(where, error);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function tooLong(where: string): FileError {
  return new FileError(
    "FILE_UNREADABLE",
    `[text] ${where}: expected at most ${formatBytes(MAX_TEXT_BYTES)} of text, found more; split it`,
    {
      details: { path: where, maxBytes: MAX_TEXT_BYTES },
    },
  );
}

function readFailure(where: string, cause: unknown): RocmForgeError {
  const reason = systemFailure(cause)?.number ?? String(cause);
  const options = { details: { path: where, reason }, cause };
  switch (reason) {
    case "ENOENT":
    case "ENOTDIR":
      return new FileError("FILE_NOT_FOUND", `[text] ${where}: no such file; check the path`, options);
    case "EISDIR":
      return new FileError("FILE_UNREADABLE", `[text] ${where}: expected a text file, found a directory`, options);
    default:
      return (
        limitReached("text", cause) ??
        new FileError("FILE_UNREADABLE", `[text] ${where}: cannot be read: ${systemFailureText(cause)}`, options)
      );
  }
}
