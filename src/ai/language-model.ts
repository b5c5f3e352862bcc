// A language model of the AI SDK over a model of this process: each call is one chat. Settings that are invalid, and a
// model that cannot be loaded, reject the call itself.

import { randomUUID } from "node:crypto";
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4GenerateResult,
  LanguageModelV4ResponseMetadata,
  LanguageModelV4StreamResult,
} from "@ai-sdk/provider";
import { chatCall } from "./chat-call.js";
import { PROVIDER_NAME } from "./language-model-options.js";
import type { ProvidedModel } from "./provided-model.js";
import { partStream } from "./part-stream.js";
import { addContent, replyEnd } from "./reply-content.js";

/** A language model of the provider. */
export class RocmForgeLanguageModel implements LanguageModelV4 {
  readonly specificationVersion = "v4";
  readonly provider = PROVIDER_NAME;
  readonly modelId: string;
  /** None: the SDK downloads files that a prompt refers to. */
  readonly supportedUrls = {};
  readonly #provided: ProvidedModel;

  constructor(modelId: string, provided: ProvidedModel) {
    this.modelId = modelId;
    this.#provided = provided;
  }

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const { messages, options: chatOptions, warnings } = chatCall(options);
    const { abortSignal } = options;
    const response = this.#response();
    const model = await this.#provided.open(abortSignal);
    const chat = model.chat(messages, {
      ...chatOptions,
      ...(abortSignal === undefined ? {} : { signal: abortSignal }),
    });
    const content: LanguageModelV4Content[] = [];
    for await (const event of chat) addContent(content, event);
    // The SDK expects a call that was aborted to fail.
    abortSignal?.throwIfAborted();
    return { content, ...replyEnd(await chat.result), response, warnings };
  }

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { messages, options: chatOptions, warnings } = chatCall(options);
    const { abortSignal } = options;
    const response = this.#response();
    const model = await this.#provided.open(abortSignal);
    const ending = new AbortController();
    const chat = model.chat(messages, { ...chatOptions, signal: ending.signal });
    return { stream: partStream({ chat, warnings, response, ending, abortSignal }) };
  }

  #response(): LanguageModelV4ResponseMetadata {
    return { id: `${PROVIDER_NAME}-${randomUUID()}`, timestamp: new Date(), modelId: this.modelId };
  }
}
