// Generating answers: sends the shown branch, lets the answer grow, and stores it. An answer continues while another
// conversation is shown; each conversation generates one at a time.

import { signal } from "@preact/signals";
import { streamChat, type ChatDelta } from "../api/chat";
import { apiMessages, settingFields } from "../chat/api-messages";
import type { AnswerEnd, Attachment, Message, ToolCall } from "../chat/message";
import { branchTo } from "../chat/message-tree";
import { newId } from "../ids";
import {
  addMessage,
  branch,
  createConversation,
  current,
  currentId,
  messages,
  putMessage,
  settings,
} from "./conversations";
import { model, refreshModels } from "./models";

/** How often a growing answer is shown: reading is no smoother above this. */
const SHOW_INTERVAL_MS = 40;
/** How often a growing answer is stored, so that a closed tab loses little. */
const STORE_INTERVAL_MS = 2000;

/** The conversations in which an answer is being generated. */
export const generating = signal<ReadonlyMap<string, AbortController>>(new Map());

/** Sends a question in the conversation that is shown, or in a new one. */
export async function ask(content: string, attachments: readonly Attachment[] = []): Promise<void> {
  const conversation = current.value ?? (await createConversation(content || (attachments[0]?.name ?? "")));
  await addMessage(question(conversation.id, conversation.leafId, content, attachments));
  await answer(conversation.id);
}

/** Asks an earlier question again in other words, beside the old one. */
export async function editQuestion(message: Message, content: string): Promise<void> {
  await addMessage(question(message.conversationId, message.parentId, content, message.attachments ?? []));
  await answer(message.conversationId);
}

/** Generates another answer beside an old one. */
export async function regenerate({ conversationId, parentId }: Message): Promise<void> {
  await answer(conversationId, parentId);
}

/** Sends the result of a tool; the answer continues once all calls have one. */
export async function giveResult(
  call: ToolCall,
  conversationId: string,
  content: string,
  isLast: boolean,
): Promise<void> {
  const parentId = current.value?.leafId ?? null;
  await addMessage({ ...blank("tool", conversationId, parentId), content, toolCallId: call.id });
  if (isLast) await answer(conversationId);
}

export function stop(conversationId = currentId.value): void {
  if (conversationId !== undefined) generating.value.get(conversationId)?.abort();
}

function blank(role: Message["role"], conversationId: string, parentId: string | null): Message {
  return { id: newId(), conversationId, parentId, role, content: "", createdAt: Date.now() };
}

function question(
  conversationId: string,
  parentId: string | null,
  content: string,
  attachments: readonly Attachment[],
) {
  return { ...blank("user", conversationId, parentId), content, ...(attachments.length === 0 ? {} : { attachments }) };
}

/** Answers the shown branch, or the one that ends with `parentId`. */
async function answer(conversationId: string, parentId = branch.value.at(-1)?.id ?? null): Promise<void> {
  if (generating.value.has(conversationId)) return;
  const controller = new AbortController();
  setGenerating(conversationId, controller);
  const chosen = model.value?.id ?? "";
  const asked = branchTo(messages.value, parentId);
  const growing = new GrowingAnswer({ ...blank("assistant", conversationId, parentId), model: chosen });
  await addMessage(growing.message);
  if (model.value?.state !== "loaded") setTimeout(() => void refreshModels(), SHOW_INTERVAL_MS);
  try {
    const fields = { model: chosen, messages: apiMessages(asked, settings.value), ...settingFields(settings.value) };
    for await (const delta of streamChat(fields, controller.signal)) growing.add(delta);
    await growing.finish();
  } catch (error) {
    if (controller.signal.aborted) await growing.finish("stopped");
    else await growing.finish("error", error instanceof Error ? error.message : String(error));
  } finally {
    setGenerating(conversationId, undefined);
    void refreshModels();
  }
}

function setGenerating(conversationId: string, controller: AbortController | undefined): void {
  const changed = new Map(generating.value);
  if (controller === undefined) changed.delete(conversationId);
  else changed.set(conversationId, controller);
  generating.value = changed;
}

/** An answer while it is generated; shown a few times per second however fast it grows. */
class GrowingAnswer {
  message: Message;
  readonly #startMs = performance.now();
  #firstMs: number | undefined;
  #reasoningMs: number | undefined;
  #calls: ToolCall[] = [];
  #end: AnswerEnd | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #storedMs = performance.now();

  constructor(message: Message) {
    this.message = message;
  }

  add(delta: ChatDelta): void {
    switch (delta.kind) {
      case "text":
        this.#endReasoning();
        this.#change({ content: this.message.content + delta.text });
        break;
      case "reasoning":
        this.#change({ reasoning: (this.message.reasoning ?? "") + delta.text });
        break;
      case "tool-call":
        this.#endReasoning();
        this.#addCall(delta);
        break;
      case "finish":
        this.#end = delta.reason as AnswerEnd;
        return;
      case "usage":
        this.message = { ...this.message, usage: delta.usage };
        return;
      default:
        delta satisfies never;
    }
    this.#firstMs ??= performance.now();
  }

  async finish(end: AnswerEnd = this.#end ?? "stop", error?: string): Promise<void> {
    clearTimeout(this.#timer);
    this.#endReasoning();
    const nowMs = performance.now();
    const firstMs = this.#firstMs ?? nowMs;
    const timings = { firstTokenMs: firstMs - this.#startMs, generationMs: nowMs - firstMs };
    this.message = { ...this.message, end, timings, ...(error === undefined ? {} : { error }) };
    await putMessage(this.message, true);
  }

  #addCall({ index, id, name, text }: Extract<ChatDelta, { kind: "tool-call" }>): void {
    const old = this.#calls[index];
    this.#calls = [...this.#calls];
    this.#calls[index] = {
      id: id ?? old?.id ?? newId(),
      name: name ?? old?.name ?? "",
      arguments: (old?.arguments ?? "") + text,
    };
    this.#change({ toolCalls: this.#calls });
  }

  #endReasoning(): void {
    if (this.message.reasoning === undefined || this.#reasoningMs !== undefined) return;
    this.#reasoningMs = performance.now() - (this.#firstMs ?? this.#startMs);
    this.message = { ...this.message, reasoningMs: this.#reasoningMs };
  }

  #change(change: Partial<Message>): void {
    this.message = { ...this.message, ...change };
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const isDue = performance.now() - this.#storedMs > STORE_INTERVAL_MS;
      if (isDue) this.#storedMs = performance.now();
      void putMessage(this.message, isDue);
    }, SHOW_INTERVAL_MS);
  }
}
