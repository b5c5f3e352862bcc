// One chat on its way: rendered, constrained, completed, and its text told apart into answer, reasoning and tool calls.
// The endpoints that speak of chats (OpenAI's two, Anthropic's) each turn the same events into their own form.

import type { ChatConversation, ChatDelta, ChatMessage, ChatTool, ToolChoice } from "../chat/message.js";
import type { ChoiceSummary, CompletionSummary, ServedModel, TokenLogprob } from "../engine/serving.js";
import { checkCompletion, type CompletionSettings, encodePrompt, runCompletion } from "./completion-run.js";
import { type Exchange, type ServerContext, withModel } from "./context.js";
import { totalCharacters } from "./fields.js";
import { refuseField, RequestError } from "./request-error.js";
import type { ChatParser, GrammarSpec, RenderedChat } from "./services.js";

export interface ChatJob extends CompletionSettings {
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  readonly thinking: boolean | undefined;
  readonly templateOptions: Readonly<Record<string, unknown>>;
  /** The form that the answer's text must have. */
  readonly format: GrammarSpec | undefined;
}

/** `tokens` are those since the choice's last text, where log-probabilities were asked for. */
export type ChatEvent =
  | { readonly kind: "text"; readonly choice: number; readonly text: string; readonly tokens: readonly TokenLogprob[] }
  | (Exclude<ChatDelta, { kind: "text" }> & { readonly choice: number });

export interface ChatEnding {
  readonly reason: "stop" | "length" | "tool-calls";
  /** The stop string that ended it. */
  readonly stop: string | undefined;
}

export interface ChatOutcome {
  readonly endings: readonly ChatEnding[];
  readonly summary: CompletionSummary;
}

export interface ChatRun {
  readonly model: ServedModel;
  readonly promptTokens: number;
  readonly events: AsyncGenerator<ChatEvent, ChatOutcome, undefined>;
}

export async function withChat<Result>(
  context: ServerContext,
  exchange: Exchange<unknown>,
  job: ChatJob,
  use: (run: ChatRun) => Promise<Result>,
): Promise<Result> {
  const { grammar } = context.options;
  const { work } = exchange;
  return withModel(context, exchange, job.model, async (model) => {
    const { rendered, prompt } = await renderChat(context, exchange, model, job);
    checkCompletion(context, model, prompt, job.sampling);
    const spec = rendered.callGrammar ?? job.format;
    using constraint = spec === undefined ? undefined : await grammar.constraint(model, spec, work.signal);
    const { maxTokens, sampling, choices, topLogprobs, ignoreEndOfGeneration } = job;
    const stop = [...job.stop, ...rendered.stop];
    const pieces = runCompletion(context, work, model, {
      prompt,
      constraint,
      printedTokens: rendered.printedTokens,
      maxTokens,
      sampling,
      stop,
      choices,
      topLogprobs,
      ignoreEndOfGeneration,
    });
    return await use({ model, promptTokens: prompt.length, events: readChat(pieces, rendered, job) });
  });
}

/** Hands each event on as it comes; whatever happens, the chat has ended when this returns. */
export async function eachEvent(
  { events }: ChatRun,
  take: (event: ChatEvent) => Promise<void> | undefined,
): Promise<ChatOutcome> {
  try {
    for (;;) {
      const next = await events.next();
      if (next.done === true) return next.value;
      await take(next.value);
    }
  } finally {
    await events.return(undefined as never);
  }
}

/** The prompt of a chat; where only its tokens are counted, that is all. */
export async function renderChat(
  { options: { chat, limits, logPrompts } }: ServerContext,
  { work, request }: Exchange<unknown>,
  model: ServedModel,
  job: Pick<ChatJob, "messages" | "tools" | "toolChoice" | "thinking" | "templateOptions" | "format">,
): Promise<{ readonly rendered: RenderedChat; readonly prompt: Int32Array }> {
  checkTools(job);
  totalCharacters(textsOf(job.messages), limits.promptCharacters, "messages");
  const rendered = await chat.render(model, conversationOf(job), work.signal);
  totalCharacters([rendered.prompt], limits.promptCharacters, "messages");
  if (logPrompts) request.log.info({ prompt: rendered.prompt }, "prompt");
  return { rendered, prompt: encodePrompt(model, rendered.prompt, rendered.addSpecial) };
}

function conversationOf(job: Parameters<typeof renderChat>[3]): ChatConversation {
  const { messages, toolChoice, templateOptions } = job;
  const forced = toolChoice.kind === "required" || toolChoice.kind === "named";
  const constrained = forced || job.format !== undefined;
  return {
    messages,
    tools: toolChoice.kind === "none" ? [] : job.tools,
    toolChoice,
    thinking: constrained ? false : job.thinking,
    constrained,
    templateOptions,
  };
}

function checkTools({ tools, toolChoice, format }: Parameters<typeof renderChat>[3]): void {
  if (toolChoice.kind === "named" && !tools.some(({ name }) => name === toolChoice.name)) {
    refuseField("tool_choice", "the name of one of the tools", JSON.stringify(toolChoice.name));
  }
  if (toolChoice.kind === "required" && tools.length === 0) refuseField("tool_choice", "tools to choose from", "none");
  if (toolChoice.kind === "auto" && tools.length > 0 && format !== undefined) {
    throw new RequestError(
      "[response_format] cannot be held to while the model may call tools; set tool_choice to none or required, or leave one of the two out",
      { status: 400, code: "unsupported_parameter", param: "response_format" },
    );
  }
}

function* textsOf(messages: readonly ChatMessage[]): Generator<string, void, undefined> {
  for (const { content, reasoning, toolCalls } of messages) {
    yield content;
    if (reasoning !== undefined) yield reasoning;
    for (const call of toolCalls ?? []) yield call.arguments;
  }
}

interface Reading {
  readonly parser: ChatParser;
  /** Of tokens whose text has not been told. */
  tokens: TokenLogprob[];
  calls: boolean;
}

async function* readChat(
  pieces: ReturnType<typeof runCompletion>,
  rendered: RenderedChat,
  { choices, stop }: ChatJob,
): AsyncGenerator<ChatEvent, ChatOutcome, undefined> {
  const readings: readonly Reading[] = Array.from({ length: choices }, () => ({ parser: rendered.createParser(), tokens: [], calls: false }));
  let summary: CompletionSummary;
  try {
    for (;;) {
      const next = await pieces.next();
      if (next.done === true) {
        summary = next.value;
        break;
      }
      const { choice, text, logprobs } = next.value;
      const reading = readings[choice];
      if (reading === undefined) throw new RangeError(`choice ${choice} of ${choices} was never asked for`);
      for (const logprob of logprobs) reading.tokens.push(logprob);
      if (text !== "") yield* eventsOf(reading, choice, reading.parser.push(text));
    }
  } finally {
    // Whoever leaves this loop leaves the completion.
    await pieces.return(undefined as never);
  }
  for (const [choice, reading] of readings.entries()) {
    yield* eventsOf(reading, choice, reading.parser.end());
    if (reading.tokens.length > 0) yield { kind: "text", choice, text: "", tokens: reading.tokens };
  }
  return { summary, endings: summary.choices.map((choice, index) => endingOf(choice, readings[index]?.calls === true, stop)) };
}

function* eventsOf(reading: Reading, choice: number, deltas: readonly ChatDelta[]): Generator<ChatEvent, void, undefined> {
  for (const delta of deltas) {
    if (delta.kind === "text") {
      yield { ...delta, choice, tokens: reading.tokens };
      reading.tokens = [];
    } else {
      if (delta.kind === "call") reading.calls = true;
      yield { ...delta, choice };
    }
  }
}

function endingOf({ reason, stop }: ChoiceSummary, calls: boolean, asked: readonly string[]): ChatEnding {
  if (reason !== "stop") return { reason: "length", stop: undefined };
  // The model's own convention ends an answer too, which is no stop string of the client's.
  const known = stop !== undefined && asked.includes(stop) ? stop : undefined;
  return { reason: calls && known === undefined ? "tool-calls" : "stop", stop: known };
}
