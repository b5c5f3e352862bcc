// One chat from request to result: rendered, constrained by a grammar, completed on the engine, and parsed into events.
// Invariants: nothing is done before the first event or the result is requested; leaving the iteration, or disposing
// the stream, cancels the completion and frees its constraint; the result settles however the chat ends.

import { deferred } from "../engine/deferred.js";
import type { ChatEvent, ChatResult } from "./chat-event.js";
import { renderPrompt, type ChatServices, type RenderOptions } from "./chat-prompt.js";
import { type ChatRequest, grammarOf, chatStops } from "./chat-request.js";
import { ChoiceReader } from "./choice-reader.js";
import type { CompletionModel, CompletionSummary } from "./completion-model.js";
import { CompletionRun } from "./completion-run.js";
import { checkLogitBias, checkPromptTokens } from "./request-check.js";
import { tokenText } from "./token-text.js";

/** How a chat is run. */
export interface ChatStreamOptions extends Pick<RenderOptions, "signal" | "onPrompt"> {
  /** How long the chat may take, from its start; it then ends with what was generated, reason "timeout". */
  readonly timeLimitMs?: number;
  /** Whether the result holds the log-probabilities that the events had; true by default. */
  readonly keepsLogprobs?: boolean;
}

/** A chat as an async iterable of events; it can be iterated once. */
export class ChatStream implements AsyncIterable<ChatEvent>, AsyncDisposable {
  readonly model: CompletionModel;
  readonly #services: ChatServices;
  readonly #request: ChatRequest;
  readonly #options: ChatStreamOptions;
  readonly #events: AsyncGenerator<ChatEvent, void, undefined>;
  readonly #result = deferred<ChatResult>();
  #isStarted = false;
  #promptTokens = 0;
  #run: CompletionRun | undefined;

  constructor(services: ChatServices, model: CompletionModel, request: ChatRequest, options: ChatStreamOptions) {
    this.model = model;
    this.#services = services;
    this.#request = request;
    this.#options = options;
    this.#events = this.#generate();
    this.#result.promise.catch(() => {});
  }

  /** Tokens of the prompt; 0 before the first event. */
  get promptTokens(): number {
    return this.#promptTokens;
  }

  /** Prompt tokens taken from the prefix cache; 0 before the first event. */
  get cachedTokens(): number {
    return this.#run?.cachedTokens ?? 0;
  }

  /** Resolves at the end of the chat; reading it before iterating runs the chat to its end. */
  get result(): Promise<ChatResult> {
    if (!this.#isStarted) void this.#drain();
    return this.#result.promise;
  }

  [Symbol.asyncIterator](): AsyncGenerator<ChatEvent, void, undefined> {
    this.#isStarted = true;
    return this.#events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStarted = true;
    await this.#events.return();
    this.#result.reject(new DOMException("The chat was disposed before it had started", "AbortError"));
  }

  async #drain(): Promise<void> {
    try {
      for await (const _ of this);
    } catch {
      // The result is rejected with it.
    }
  }

  async *#generate(): AsyncGenerator<ChatEvent, void, undefined> {
    const { tokenizer } = this.model;
    const { signal, timeLimitMs = Infinity, keepsLogprobs = true } = this.#options;
    const { choices = 1, stop = [], sampling = {} } = this.#request;
    let readers: readonly ChoiceReader[] = [];
    try {
      const deadlineMs = performance.now() + timeLimitMs;
      const { rendered, resolved, tokens } = await this.#prompt();
      checkLogitBias(sampling, this.model.vocabularySize);
      const spec = grammarOf(resolved, rendered);
      using constraint =
        spec === undefined ? undefined : await this.#services.grammars.constraint(this.model, spec, signal);
      const stops = chatStops(stop, resolved, rendered);
      readers = Array.from({ length: choices }, (_, choice) => {
        const parser = rendered.createParser(stops.inText ? stops.requested : []);
        return new ChoiceReader({
          choice,
          parser,
          stops,
          tokenText: (id) => tokenText(tokenizer, id),
          oneCall: !resolved.parallelToolCalls,
          keepsLogprobs,
        });
      });
      const task = {
        prompt: tokens,
        prompts: 1,
        deadlineMs,
        constraint,
        signal,
        printedTokens: rendered.printedTokens,
      };
      const run = new CompletionRun(this.model, { ...this.#request, ...task, stop: stops.inEngine }, this.#services);
      this.#run = run;
      for await (const delta of run) {
        const reader = readers[delta.choice];
        for (const event of reader.read(delta)) yield event;
        if (reader.ending !== undefined && delta.finished === undefined) run.cancel(delta.choice);
      }
      this.#result.resolve(resultOf(readers, await run.summary()));
    } catch (error) {
      this.#result.reject(error);
      throw error;
    } finally {
      // Has an effect only if the iteration was left before its end.
      this.#run?.ended.then((summary) => this.#result.resolve(resultOf(readers, summary)), this.#result.reject);
    }
  }

  async #prompt() {
    const { signal, onPrompt } = this.#options;
    const options: RenderOptions = { signal, onPrompt, reservedTokens: 1 };
    const prepared = await renderPrompt(this.#services, this.model, this.#request, options);
    checkPromptTokens(this.#services.limits, this.model, { tokens: prepared.tokens, field: "messages" }, 1);
    this.#promptTokens = prepared.tokens.length;
    return prepared;
  }
}

/** Tokens that were generated after a choice had ended are not counted. */
function resultOf(readers: readonly ChoiceReader[], summary: CompletionSummary): ChatResult {
  const sum = (count: (reader: ChoiceReader) => number): number =>
    readers.reduce((total, reader) => total + count(reader), 0);
  const completionTokens = sum(({ generatedTokens }) => generatedTokens);
  const reasoningTokens = sum((reader) => reader.reasoningTokens);
  const { promptTokens, cachedTokens } = summary;
  return {
    choices: readers.map(({ result }) => result),
    usage: { promptTokens, cachedTokens, completionTokens, reasoningTokens },
    summary: { ...summary, generatedTokens: completionTokens },
  };
}
