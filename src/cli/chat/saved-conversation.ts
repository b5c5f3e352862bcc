// A conversation as a file: JSON with the messages in the form of chat APIs. A file may come from anywhere, so its size
// and form are checked; saving replaces another saved conversation, and refuses to replace any other file.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { FileError } from "../../errors.js";
import { isPlainObject } from "../../plain-object.js";
import { systemFailure, systemFailureText } from "../../system-failure.js";
import { whyNotWritten, writeWholeFile } from "../../whole-file.js";
import { formatBytes } from "../format.js";
import type { Conversation, Turn } from "./conversation.js";

const FORMAT = "rocmforge-chat";
const VERSION = 1;
/** A conversation is bounded by a context, and the longest contexts are a few megabytes of text. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;
/** No context holds more. */
const MAX_MESSAGES = 1_000_000;

interface SavedConversation {
  readonly system: string | undefined;
  readonly turns: readonly Turn[];
}

/** Writes a conversation to a file; an existing file is replaced only if it is a saved conversation. */
export async function saveConversation(path: string, conversation: Conversation, model: string): Promise<void> {
  await refuseForeignFile(path);
  const text = `${JSON.stringify({ format: FORMAT, version: VERSION, model, messages: conversation.messages() }, undefined, 2)}\n`;
  try {
    await writeWholeFile("chat", path, (handle) => handle.writeFile(text));
  } catch (cause) {
    throw cause instanceof FileError
      ? cause
      : failure("FILE_WRITE", path, `could not be written: ${whyNotWritten(cause)}`, cause);
  }
}

/** Reads a conversation from a file that may come from anywhere. */
export async function loadConversation(path: string): Promise<SavedConversation> {
  return parseConversation(path, await readBounded(path));
}

/** Parses the text of a saved conversation; throws if it has another form. */
export function parseConversation(path: string, text: string): SavedConversation {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw failure("FILE_UNREADABLE", path, "expected a saved conversation, found text that is not JSON", cause);
  }
  const { format, version, messages } = record(value);
  if (format !== FORMAT) throw wrongShape(path, `"format": "${FORMAT}"`);
  if (version !== VERSION) throw wrongShape(path, `"version": ${VERSION}; a newer rocmforge may have written it`);
  if (!Array.isArray(messages) || messages.length > MAX_MESSAGES)
    throw wrongShape(path, `"messages", a list of at most ${MAX_MESSAGES}`);
  return turnsOf(path, messages);
}

function turnsOf(path: string, messages: readonly unknown[]): SavedConversation {
  const spoken = messages.map((message, index) => {
    const { role, content } = record(message);
    if (typeof content !== "string") throw wrongShape(path, `text as messages[${index}].content`);
    return { role, content };
  });
  const system = spoken[0]?.role === "system" ? spoken[0].content : undefined;
  const rest = system === undefined ? spoken : spoken.slice(1);
  const turns: Turn[] = [];
  for (let index = 0; index < rest.length; index += 2) {
    const [message, answer] = [rest[index], rest[index + 1]];
    if (message.role !== "user" || answer?.role !== "assistant") {
      throw wrongShape(path, `messages of "user" and "assistant" by turns, after one of "system" at most`);
    }
    turns.push({ message: message.content, answer: answer.content });
  }
  return { system, turns };
}

/**
 * A path may name an endless or blocking file: only a regular file is opened, and its bytes are counted while reading.
 */
async function readBounded(path: string): Promise<string> {
  try {
    if (!(await stat(path)).isFile()) throw wrongShape(path, "a file");
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > MAX_FILE_BYTES)
        throw wrongShape(path, `a saved conversation of at most ${formatBytes(MAX_FILE_BYTES)}`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString("utf8");
  } catch (cause) {
    if (cause instanceof FileError) throw cause;
    if (systemFailure(cause)?.number === "ENOENT")
      throw failure("FILE_NOT_FOUND", path, "no such file; check the path", cause);
    throw failure("FILE_UNREADABLE", path, `cannot be read: ${systemFailureText(cause)}`, cause);
  }
}

/** A mistyped name must not overwrite a model. */
async function refuseForeignFile(path: string): Promise<void> {
  try {
    await loadConversation(path);
  } catch (cause) {
    if (cause instanceof FileError && cause.code === "FILE_NOT_FOUND") return;
    const unread = cause instanceof FileError ? systemFailure(cause.cause) : undefined;
    if (unread !== undefined) {
      throw failure(
        "FILE_WRITE",
        path,
        `cannot be read (${unread.number}: ${unread.reason}), so it was not replaced; choose another name`,
        cause,
      );
    }
    throw failure(
      "FILE_WRITE",
      path,
      "expected a saved conversation to replace, or no file, found something else; choose another name",
      cause,
    );
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return isPlainObject(value) ? value : {};
}

function wrongShape(path: string, expected: string): FileError {
  return failure("FILE_UNREADABLE", path, `expected ${expected}, found something else`);
}

function failure(
  code: "FILE_UNREADABLE" | "FILE_NOT_FOUND" | "FILE_WRITE",
  path: string,
  what: string,
  cause?: unknown,
): FileError {
  return new FileError(code, `[chat] ${path}: ${what}`, {
    details: { path },
    ...(cause === undefined ? {} : { cause }),
  });
}
