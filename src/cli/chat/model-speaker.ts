// Answers with a model: the template renders the messages to a prompt, and the generated text is split into answer and
// reasoning. Each prompt starts like the previous one, so that most of it is in the prefix cache.

import type { ChatConversation, ChatDelta } from "../../chat/message.js";
import type { CompletionRequest, ModelEngine } from "../../engine/serving.js";
import type { SamplerOptions } from "../../sampler/options.js";
import type { TextSegment } from "../../tokenizer/tokenizer.js";
import type { AnswerDelta } from "./answer-view.js";
import type { SpokenMessage } from "./conversation.js";
import type { Answer, AnswerOptions, PreparedPrompt, Speaker } from "./speaker.js";

interface AnswerReader {
  push(text: string): readonly ChatDelta[];
  end(): readonly ChatDelta[];
}

interface Rendered {
  readonly segments: readonly TextSegment[];
  readonly addSpecial: boolean;
  readonly stop: readonly string[];
  readonly printedTokens: ReadonlySet<number>;
  createParser(): AnswerReader;
}

interface ModelSpeakerOptions {
  readonly model: ModelEngine;
  readonly render: (conversation: ChatConversation, signal: AbortSignal) => Promise<Rendered>;
  readonly sampling: Partial<SamplerOptions>;
  readonly maxAnswerTokens: number | undefined;
  /** Stop strings in addition to those of the chat format. */
  readonly stop: readonly string[];
}

/** Answers messages with a model and its chat template. */
export class ModelSpeaker implements Speaker {
  readonly modelName: string;
  readonly contextTokens: number;
  readonly maxAnswerTokens: number | undefined;
  readonly #options: ModelSpeakerOptions;

  constructor(options: ModelSpeakerOptions) {
    this.modelName = options.model.name;
    this.contextTokens = options.model.contextTokens;
    this.maxAnswerTokens = options.maxAnswerTokens;
    this.#options = options;
  }

  async prepare(messages: readonly SpokenMessage[], signal: AbortSignal): Promise<PreparedPrompt> {
    const { model, render } = this.#options;
    const rendered = await render(
      {
        messages,
        tools: [],
        toolChoice: { kind: "none" },
        thinking: undefined,
        constrained: false,
        templateOptions: {},
      },
      signal,
    );
    const tokens = model.tokenizer.encodeSegments(rendered.segments, { addSpecial: rendered.addSpecial });
    return { tokens: tokens.length, answer: (options) => this.#answer(tokens, rendered, options) };
  }

  #answer(
    prompt: Int32Array,
    rendered: Rendered,
    { attempt, signal, maxTokens = this.maxAnswerTokens }: AnswerOptions,
  ): Answer {
    const { model, sampling, stop } = this.#options;
    const request: CompletionRequest = {
      prompt,
      sampling: sampling.seed === undefined ? sampling : { ...sampling, seed: sampling.seed + attempt },
      ...(maxTokens === undefined ? {} : { maxTokens }),
      stop: [...rendered.stop, ...stop],
      printedTokens: rendered.printedTokens,
      signal,
    };
    const completion = model.complete(request);
    return { deltas: readDeltas(completion, rendered.createParser()), summary: completion.summary };
  }
}

async function* readDeltas(
  texts: AsyncIterable<{ readonly text: string }>,
  parser: AnswerReader,
): AsyncGenerator<AnswerDelta, void, undefined> {
  for await (const { text } of texts) yield* spoken(parser.push(text));
  yield* spoken(parser.end());
}

/** No tools are offered, so that no delta is a tool call. */
function* spoken(deltas: readonly ChatDelta[]): Generator<AnswerDelta, void, undefined> {
  for (const delta of deltas) {
    if ((delta.kind === "text" || delta.kind === "reasoning") && delta.text !== "")
      yield { kind: delta.kind, text: delta.text };
  }
}
