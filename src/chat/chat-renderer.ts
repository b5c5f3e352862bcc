// Renders the chats of all models: one set of render threads, and one format for each model. A format belongs to a
// tokenizer, so a model that is loaded again gets a new one.

import { ChatFormat, type ChatTokenizer, type RenderedChat } from "./chat-format.js";
import type { ChatTemplates } from "./template/chat-templates.js";
import type { ChatConversation } from "./message.js";
import { TemplateRunner, type TemplateRunnerOptions } from "./template/template-runner.js";

/** The part of a model that rendering a chat needs. */
export interface ChatModel {
  readonly tokenizer: ChatTokenizer;
  readonly chatTemplates: ChatTemplates;
}

/** Renders the chats of any number of models. */
export class ChatRenderer implements AsyncDisposable {
  readonly #runner: TemplateRunner;
  readonly #formats = new WeakMap<ChatTokenizer, ChatFormat>();

  constructor(options?: TemplateRunnerOptions) {
    this.#runner = new TemplateRunner(options);
  }

  render(model: ChatModel, conversation: ChatConversation, signal?: AbortSignal): Promise<RenderedChat> {
    return this.#formatOf(model).render(conversation, signal);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#runner[Symbol.asyncDispose]();
  }

  #formatOf({ tokenizer, chatTemplates }: ChatModel): ChatFormat {
    const known = this.#formats.get(tokenizer);
    if (known !== undefined) return known;
    const format = new ChatFormat(this.#runner, tokenizer, chatTemplates);
    this.#formats.set(tokenizer, format);
    return format;
  }
}
