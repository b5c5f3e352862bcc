// Chats on a model without any HTTP: the library and the server both start them here.

import type { ChatPrompt, ChatRequest } from "./chat-request.js";
import { type ChatServices, renderPrompt } from "./chat-prompt.js";
import { ChatStream, type ChatStreamOptions } from "./chat-stream.js";
import type { CompletionModel } from "./completion-model.js";
import type { CompletionContext } from "./completion-run.js";
import { type CompletionLimits, NO_COMPLETION_LIMITS } from "./limits.js";
import type { ChatRenderService, GrammarService } from "./services.js";
import { Tokenization } from "./tokenization.js";

/** The services that chats use, which their owner disposes. */
interface ChatCompletionsOptions {
  readonly renderer: ChatRenderService;
  readonly grammars: GrammarService;
  readonly tokenization?: Tokenization;
  readonly limits?: CompletionLimits;
  readonly observer?: CompletionContext["observer"];
}

/** Starts chats and counts the tokens of their prompts. Disposing it ends the tokenizer thread, if it has one of its own. */
export class ChatCompletions implements AsyncDisposable {
  readonly #services: ChatServices;
  readonly #ownTokenization: Tokenization | undefined;

  constructor(options: ChatCompletionsOptions) {
    const { renderer, grammars, limits = NO_COMPLETION_LIMITS, observer } = options;
    const tokenization = options.tokenization ?? new Tokenization();
    if (options.tokenization === undefined) this.#ownTokenization = tokenization;
    this.#services = { renderer, grammars, tokenization, limits, observer };
  }

  /** A chat that starts when its events or its result are first requested. */
  start(model: CompletionModel, request: ChatRequest, options: ChatStreamOptions = {}): ChatStream {
    return new ChatStream(this.#services, model, request, options);
  }

  /** The number of tokens of a chat's prompt, which may exceed the context length. */
  async countTokens(
    model: CompletionModel,
    prompt: ChatPrompt,
    options: Pick<ChatStreamOptions, "signal" | "onPrompt"> = {},
  ): Promise<number> {
    const { tokens } = await renderPrompt(this.#services, model, prompt, options);
    return tokens.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ownTokenization?.[Symbol.asyncDispose]();
  }
}
