// One chat on its way: rendered, constrained, completed, and its text told apart into answer, reasoning and tool calls.
// The endpoints that speak of chats (OpenAI's two, Anthropic's) each turn the same events into their own form.

import type { ChatConversation, ChatMessage, ChatTool, ToolChoice } from "../chat/message.js";
import type { CompletionSummary, ServedModel } from "../engine/serving.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import { type ChatEnding, type ChatEvent, ChoiceReader } from "./chat-reader.js";
import { checkCompletion, checkTexts, type CompletionSettings, deadlineOf, encodePrompts, type PromptTexts, runCompletion } from "./completion-run.js";
import { type Exchange, type ServerContext, withModel } from "./context.js";
import { totalCharacters } from "./fields.js";
import { refuseField, RequestError } from "./request-error.js";
import type { RenderedChat } from "./services.js";

/** What is asked, before an answer is written. */
export interface ChatPrompt {
  readonly model: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
  readonly thinking: boolean | undefined;
  readonly templateOptions: Readonly<Record<string, unknown>>;
  /** The form that the answer's text must have. */
  readonly format: GrammarSpec | undefined;
  /** What the endpoint calls the messages and the form, for errors. */
  readonly fields: { readonly messages: string; readonly format: string };
}

export interface ChatJob extends ChatPrompt, CompletionSettings {}

export interface ChatOutcome {
  readonly endings: readonly ChatEnding[];
  readonly summary: CompletionSummary;
}

export interface ChatRun {
  readonly model: ServedModel;
  readonly promptTokens: number;
  /** Hands each event on as it comes; whatever happens, the chat has ended when this returns. */
  read(take: (event: ChatEvent) => Promise<void> | undefined): Promise<ChatOutcome>;
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
    const deadlineMs = deadlineOf(context);
    const { rendered, prompt } = await renderChat(context, exchange, model, job, 1);
    checkCompletion(context, model, { tokens: prompt, param: job.fields.messages }, job.sampling);
    const spec = specOf(job, rendered);
    using constraint = spec === undefined ? undefined : await grammar.constraint(model, spec, work.signal);
    const read: ChatRun["read"] = async (take) => {
      const stops = stopsOf(job, rendered);
      const readers = Array.from({ length: job.choices }, (_, choice) => new ChoiceReader(choice, rendered.createParser(stops.inText ? stops.asked : []), stops));
      const { maxTokens, sampling, choices, topLogprobs, ignoreEndOfGeneration } = job;
      const settings = { maxTokens, sampling, choices, topLogprobs, ignoreEndOfGeneration, stop: stops.inEngine, printedTokens: rendered.printedTokens };
      const summary = await runCompletion(context, work, model, { ...settings, prompt, prompts: 1, deadlineMs, constraint }, async (piece, leave) => {
        const reader = readers[piece.choice];
        if (reader === undefined) throw new RangeError(`choice ${piece.choice} of ${choices} was never asked for`);
        for (const event of reader.read(piece)) await take(event);
        if (reader.ending !== undefined && piece.finished === undefined) leave();
      });
      return outcomeOf(readers, summary);
    };
    return await use({ model, promptTokens: prompt.length, read });
  });
}

function specOf({ format }: ChatJob, { callForms }: RenderedChat): GrammarSpec | undefined {
  return callForms.length > 0 ? { kind: "forms", forms: callForms } : format;
}

/**
 * A client's stop strings mean the text that it sees. Where there is more than that, they are looked for behind the
 * parser; a call that must be has no such text at all, and would be cut in the middle.
 */
function stopsOf({ stop }: ChatJob, rendered: RenderedChat) {
  const asked = rendered.callForms.length > 0 ? [] : stop;
  const inText = rendered.hidesText;
  return { asked, inText, inEngine: inText ? rendered.stop : [...asked, ...rendered.stop] };
}

/** Tokens that were on their way when a choice had ended are no part of the answer. */
function outcomeOf(readers: readonly ChoiceReader[], summary: CompletionSummary): ChatOutcome {
  const endings = readers.map(({ ending }, choice) => {
    if (ending === undefined) throw new RangeError(`choice ${choice} has no end`);
    return ending;
  });
  return { endings, summary: { ...summary, generatedTokens: readers.reduce((sum, { generatedTokens }) => sum + generatedTokens, 0) } };
}

/** The prompt of a chat, after which `room` tokens are to be written; where only its tokens are counted, that is all. */
export async function renderChat(
  context: ServerContext,
  { work, request }: Exchange<unknown>,
  model: ServedModel,
  asked: ChatPrompt,
  room?: number,
): Promise<{ readonly rendered: RenderedChat; readonly prompt: Int32Array }> {
  const { chat, limits, logPrompts } = context.options;
  checkTools(asked);
  totalCharacters(textsOf(asked.messages), limits.promptCharacters, asked.fields.messages);
  if (room !== undefined) checkTexts(context, model, { texts: [certainText(asked.messages)], addSpecial: false, param: asked.fields.messages }, room);
  const rendered = await chat.render(model, conversationOf(asked), work.signal);
  totalCharacters([rendered.prompt], limits.promptCharacters, asked.fields.messages);
  if (logPrompts) request.log.info({ prompt: rendered.prompt }, "prompt");
  const texts: PromptTexts = { texts: [rendered.prompt], addSpecial: rendered.addSpecial, param: asked.fields.messages };
  if (room !== undefined) checkTexts(context, model, texts, room);
  const [prompt] = await encodePrompts(context, work, model, texts);
  return { rendered, prompt };
}

function conversationOf({ messages, tools, toolChoice, thinking, templateOptions, format }: ChatPrompt): ChatConversation {
  const forced = toolChoice.kind === "required" || toolChoice.kind === "named";
  const constrained = forced || format !== undefined;
  return {
    messages,
    tools: toolChoice.kind === "none" ? [] : tools,
    toolChoice,
    thinking: constrained ? false : thinking,
    constrained,
    templateOptions,
  };
}

function checkTools({ tools, toolChoice, format, fields }: ChatPrompt): void {
  if (toolChoice.kind === "named" && !tools.some(({ name }) => name === toolChoice.name)) {
    refuseField("tool_choice", "the name of one of the tools", JSON.stringify(toolChoice.name));
  }
  if (toolChoice.kind === "required" && tools.length === 0) refuseField("tool_choice", "tools to choose from", "none");
  if (toolChoice.kind === "auto" && tools.length > 0 && format !== undefined) {
    throw new RequestError(
      `[${fields.format}] cannot be held to while the model may call tools; set tool_choice to none, or to one that demands a call, or leave one of the two out`,
      { status: 400, code: "unsupported_parameter", param: fields.format },
    );
  }
}

/** What every template writes; of what the model wrote itself some leave out thoughts. */
function certainText(messages: readonly ChatMessage[]): string {
  return messages.map(({ role, content }) => (role === "assistant" ? "" : content)).join("");
}

function* textsOf(messages: readonly ChatMessage[]): Generator<string, void, undefined> {
  for (const { content, reasoning, toolCalls } of messages) {
    yield content;
    if (reasoning !== undefined) yield reasoning;
    for (const call of toolCalls ?? []) yield call.arguments;
  }
}
