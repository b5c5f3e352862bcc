// A conversation over several turns: it keeps the messages, and the model's prefix cache keeps their keys and values,
// so that a turn computes only what is new. Saved sessions are untrusted files: their size and form are checked before
// they are used.

import { open } from "node:fs/promises";
import type { ChatMessage } from "../chat/message.js";
import { ChatError, FileError } from "../errors.js";
import { isPlainObject, parsedJson } from "../plain-object.js";
import { refuseUnknownKeys, refuseValue } from "../options.js";
import { systemFailureText } from "../system-failure.js";
import { whyNotWritten, writeWholeFile } from "../whole-file.js";
import type { ChatOptions } from "./chat-options.js";
import { checkMessages } from "./chat-options.js";
import { Chat, type Reply, type ToolCall } from "./chat.js";

/** The version of saved sessions. */
const FORMAT = "rocmforge-session-1";
/** Far more text than any context holds. */
const MAX_FILE_BYTES = 256 * 2 ** 20;

/** Options of `model.session`. */
export interface SessionOptions {
  /** The system prompt of the conversation. */
  readonly system?: string;
  /** Earlier messages to continue from, after the system prompt. */
  readonly messages?: readonly ChatMessage[];
  /** Options of every turn; those of `say` take precedence. */
  readonly chat?: ChatOptions<never>;
}

const SESSION_OPTION_NAMES: Readonly<Record<keyof SessionOptions, true>> = { system: true, messages: true, chat: true };

/** The part of a model that a session needs. Part of the internals. */
export interface SessionModel {
  readonly name: string;
  chat<Value = undefined>(messages: readonly ChatMessage[], options?: ChatOptions<Value>): Chat<Value>;
}

/** A conversation with a model, turn by turn. */
export class Session {
  readonly #model: SessionModel;
  readonly #options: ChatOptions<never>;
  readonly #messages: ChatMessage[] = [];
  #isReplying = false;

  constructor(model: SessionModel, options: SessionOptions = {}) {
    refuseUnknownKeys("session", options, Object.keys(SESSION_OPTION_NAMES));
    const { system, messages = [], chat = {} } = options;
    if (system !== undefined && typeof system !== "string") refuseValue("session", "system", "text", system);
    if (messages.length > 0) checkMessages("session", messages);
    this.#model = model;
    this.#options = chat;
    if (system !== undefined) this.#messages.push({ role: "system", content: system });
    this.#messages.push(...messages);
  }

  /** The conversation so far. */
  get messages(): readonly ChatMessage[] {
    return [...this.#messages];
  }

  /**
   * One turn: a text, or a list of messages such as tool results, and the model's reply. Both become part of the
   * conversation when the reply is complete or was cut off; a turn that fails leaves the conversation unchanged.
   */
  say<Value = undefined>(turn: string | readonly ChatMessage[], options: ChatOptions<Value> = {}): Chat<Value> {
    const added: readonly ChatMessage[] = typeof turn === "string" ? [{ role: "user", content: turn }] : turn;
    checkMessages("say", added);
    if (this.#isReplying)
      throw new ChatError(
        "CHAT_SESSION",
        "[say] the reply to the last turn is still being generated; await its result first",
      );
    const chat = this.#model.chat<Value>([...this.#messages, ...added], {
      ...this.#options,
      ...options,
    } as ChatOptions<Value>);
    return this.#followed(chat, added);
  }

  /** The result of a tool, as the message that answers its call. */
  static toolResult(call: Pick<ToolCall, "id" | "name">, result: unknown): ChatMessage {
    const content = typeof result === "string" ? result : (JSON.stringify(result) ?? "null");
    return { role: "tool", content, toolCallId: call.id, name: call.name };
  }

  /** Writes the conversation to a file, atomically. */
  async save(path: string): Promise<void> {
    const text = JSON.stringify({ format: FORMAT, model: this.#model.name, messages: this.#messages }, undefined, 1);
    try {
      await writeWholeFile("session", path, async (handle) => void (await handle.writeFile(`${text}\n`)));
    } catch (error) {
      if (error instanceof FileError) throw error;
      throw new FileError("FILE_WRITE", `[session] ${path} was not written: ${whyNotWritten(error)}`, { cause: error });
    }
  }

  #followed<Value>(chat: Chat<Value>, added: readonly ChatMessage[]): Chat<Value> {
    return chat.followedBy({
      begins: () => {
        if (this.#isReplying)
          throw new ChatError(
            "CHAT_SESSION",
            "[say] the reply to another turn is still being generated; await its result first",
          );
        this.#isReplying = true;
      },
      ends: (reply: Reply<Value> | undefined) => {
        this.#isReplying = false;
        // A turn that failed, or was aborted before anything was generated, leaves the conversation as it was.
        if (reply === undefined || (reply.finishReason === "abort" && reply.usage.completionTokens === 0)) return;
        this.#messages.push(...added, reply.message);
      },
    });
  }
}

/** Reads the messages of a saved session. */
export async function readSession(path: string): Promise<readonly ChatMessage[]> {
  const state = parsedJson(await readBounded(path));
  const damaged = (found: string): ChatError =>
    new ChatError("CHAT_SESSION", `[session] ${path} is not a saved session: ${found}`, { details: { path } });
  if (!isPlainObject(state) || state["format"] !== FORMAT) throw damaged(`expected JSON with "format": "${FORMAT}"`);
  const { messages } = state;
  if (!Array.isArray(messages)) throw damaged("it has no messages");
  try {
    if (messages.length > 0) checkMessages("session", messages);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error));
  }
  return messages as readonly ChatMessage[];
}

async function readBounded(path: string): Promise<string> {
  try {
    await using file = await open(path, "r");
    const { size } = await file.stat();
    if (size > MAX_FILE_BYTES) throw new RangeError(`it has ${size} bytes, and at most ${MAX_FILE_BYTES} are read`);
    return await file.readFile("utf8");
  } catch (error) {
    const reason = error instanceof RangeError ? error.message : systemFailureText(error);
    throw new FileError("FILE_UNREADABLE", `[session] ${path} cannot be read: ${reason}`, { cause: error });
  }
}
