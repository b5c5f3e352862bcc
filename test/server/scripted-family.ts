// A model of a family behind the server: a real tokenizer with the family's control tokens and its template, and a text
// that it writes, token by token. A token that the request's grammar does not allow fails the request.

import { FakeModel } from "../../src/server/testing/fake-model.js";
import type {
  ChoiceSummary,
  Completion,
  CompletionDelta,
  CompletionRequest,
  CompletionSummary,
} from "../../src/engine/serving.js";
import { deferred } from "../../src/engine/deferred.js";
import { StopStrings } from "../../src/engine/stop-strings.js";
import type { ChatTemplates } from "../../src/chat/template/chat-templates.js";
import type { Tokenizer } from "../../src/tokenizer/tokenizer.js";
import { familyModel } from "../library/chat/family-model.js";
import type { Family } from "../library/chat/family-templates.js";

export class ScriptedFamily extends FakeModel {
  override readonly tokenizer: Tokenizer;
  override readonly vocabularySize: number;
  override readonly chatTemplates: ChatTemplates;
  /** What it writes next. */
  reply = "";
  /** The last prompt. */
  prompt = "";

  constructor(name: string, family: Family) {
    super(name, 65_536);
    const { tokenizer, chatTemplates } = familyModel(family);
    this.tokenizer = tokenizer;
    this.vocabularySize = tokenizer.vocabularySize;
    this.chatTemplates = chatTemplates;
  }

  override complete(request: CompletionRequest): Completion {
    this.prompt = this.tokenizer.decode(request.prompt, { special: true });
    const summary = deferred<CompletionSummary>();
    summary.promise.catch(() => {});
    const deltas = this.#write(request, this.reply, summary);
    return { summary: summary.promise, cachedTokens: 0, cancel: () => {}, [Symbol.asyncIterator]: () => deltas };
  }

  async *#write(
    request: CompletionRequest,
    reply: string,
    summary: ReturnType<typeof deferred<CompletionSummary>>,
  ): AsyncGenerator<CompletionDelta, void, undefined> {
    const { tokenizer } = this;
    const { constraint, printedTokens } = request;
    const stops = new StopStrings(request.stop ?? []);
    const decoder = new TextDecoder();
    const { eosToken: eos = 0, endOfGeneration } = tokenizer;
    const end = endOfGeneration.has(eos) ? eos : [...endOfGeneration][0];
    const tokens = [...tokenizer.encode(reply, { addSpecial: false, parseSpecial: true }), end];
    try {
      for (const [index, token] of tokens.entries()) {
        const mask = await constraint?.allowed();
        if (mask !== undefined && (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 0)
          throw new Error(`the grammar does not allow ${JSON.stringify(tokenizer.tokenText(token))}, token ${index}`);
        const isEnd = tokenizer.endOfGeneration.has(token);
        if (isEnd) await constraint?.finish?.();
        else constraint?.accept(token);
        const bytes = isEnd ? new Uint8Array() : tokenizer.tokenBytes(token, printedTokens?.has(token) === true);
        const pushed = stops.push(decoder.decode(bytes, { stream: !isEnd }));
        const shown = isEnd ? pushed.text + stops.flush() : pushed.text;
        const delta = { choice: 0, text: shown, tokens: [token], logprobs: [], atMs: performance.now() };
        if (!isEnd && !pushed.stopped) {
          yield delta;
          continue;
        }
        const choice: ChoiceSummary = {
          reason: "stop",
          generatedTokens: index + 1,
          ...(pushed.stop === undefined ? {} : { stop: pushed.stop }),
        };
        summary.resolve(summaryOf(request, choice));
        return yield { ...delta, finished: choice };
      }
    } catch (error) {
      summary.reject(error);
      throw error;
    }
  }
}

function summaryOf({ prompt }: CompletionRequest, choice: ChoiceSummary): CompletionSummary {
  return {
    choices: [choice],
    promptTokens: prompt.length,
    cachedTokens: 0,
    generatedTokens: choice.generatedTokens,
    seed: 1,
    queuedMs: 1,
    promptMs: 1,
    timeToFirstTokenMs: 1,
    tokensPerSecond: 1,
    preemptions: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
  };
}
