// The responses of /v1/completions, whole or in chunks: texts with the API's older form of log-probabilities.

import type {
  ChoiceSummary,
  CompletionDelta,
  CompletionModel,
  CompletionSummary,
} from "../../../../completion/completion-model.js";
import { tokenText } from "../../../../completion/token-text.js";
import type { Tokenizer } from "../../../../tokenizer/tokenizer.js";
import { type ResponseHead, responseTimings, usageOf } from "../../../completion/response-head.js";
import { finiteLogprob } from "../../../completion/shown-logprobs.js";

interface TextLogprobs {
  readonly tokens: string[];
  readonly token_logprobs: number[];
  readonly top_logprobs: Record<string, number>[];
  /** Where each token begins in the choice's text, in characters. */
  readonly text_offset: number[];
}

/** One choice as far as it has been written. */
interface WrittenChoice {
  text: string;
  readonly logprobs: TextLogprobs;
  /** Where the next token begins in the text. */
  offset: number;
  isBegun: boolean;
}

/** A chunk of a stream. */
interface TextChunk {
  readonly type?: never;
  readonly [field: string]: unknown;
}

/** What the response contains. */
interface CompletionWriterOptions {
  readonly model: CompletionModel;
  /** The text that each choice begins with, if the prompt is to be repeated. */
  readonly echoes: readonly string[];
  readonly isStreamed: boolean;
  readonly hasLogprobs: boolean;
  readonly hasUsage: boolean;
}

/** Writes completions in OpenAI's form. */
export class TextCompletionWriter {
  readonly #head: object;
  readonly #options: CompletionWriterOptions;
  readonly #choices: readonly WrittenChoice[];

  constructor(head: ResponseHead, options: CompletionWriterOptions) {
    this.#head = { ...head, object: "text_completion" };
    this.#options = options;
    this.#choices = options.echoes.map(() => ({ text: "", logprobs: emptyLogprobs(), offset: 0, isBegun: false }));
  }

  /** The chunks of a delta, whose choice is counted over all prompts. */
  *add(index: number, delta: CompletionDelta): Generator<TextChunk, void, undefined> {
    const { isStreamed, echoes, model, hasLogprobs } = this.#options;
    const choice = this.#choices[index];
    const text = (choice.isBegun ? "" : echoes[index]) + delta.text;
    choice.isBegun = true;
    const logprobs = isStreamed ? emptyLogprobs() : choice.logprobs;
    choice.offset = addLogprobs(logprobs, delta, model.tokenizer, choice.offset);
    if (!isStreamed) {
      choice.text += text;
      return;
    }
    if (text !== "" || logprobs.tokens.length > 0) yield this.#chunk(index, text, hasLogprobs ? logprobs : null, null);
    if (delta.finished !== undefined) yield this.#chunk(index, "", null, finishReason(delta.finished));
  }

  end(summaries: readonly CompletionSummary[]): Iterable<TextChunk> {
    if (!this.#options.hasUsage) return [];
    return [{ ...this.#head, choices: [], usage: usageOf(...summaries), ...responseTimings(...summaries) }];
  }

  response(summaries: readonly CompletionSummary[]): object {
    const reasons = summaries.flatMap(({ choices }) => choices.map(finishReason));
    return {
      ...this.#head,
      choices: this.#choices.map(({ text, logprobs }, index) => ({
        index,
        text,
        logprobs: this.#options.hasLogprobs ? logprobs : null,
        finish_reason: reasons[index],
      })),
      usage: usageOf(...summaries),
      ...responseTimings(...summaries),
    };
  }

  #chunk(index: number, text: string, logprobs: TextLogprobs | null, reason: string | null): TextChunk {
    return {
      ...this.#head,
      choices: [{ index, text, logprobs, finish_reason: reason }],
      ...(this.#options.hasUsage ? { usage: null } : {}),
    };
  }
}

function emptyLogprobs(): TextLogprobs {
  return { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
}

/** Appends the log-probabilities of a delta; returns where the next token begins. */
function addLogprobs(logprobs: TextLogprobs, delta: CompletionDelta, tokenizer: Tokenizer, offset: number): number {
  let at = offset;
  for (const { token, logprob, top } of delta.logprobs) {
    const text = tokenText(tokenizer, token);
    logprobs.tokens.push(text);
    logprobs.token_logprobs.push(finiteLogprob(logprob));
    logprobs.top_logprobs.push(
      Object.fromEntries(
        top.map((alternative) => [tokenText(tokenizer, alternative.token), finiteLogprob(alternative.logprob)]),
      ),
    );
    logprobs.text_offset.push(at);
    at += text.length;
  }
  return at;
}

function finishReason({ reason }: ChoiceSummary): "stop" | "length" {
  return reason === "stop" ? "stop" : "length";
}
