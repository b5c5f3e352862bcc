// One chat on its way: rendered, constrained, completed, and its text told apart into answer, reasoning and tool calls.
// The endpoints that speak of chats (OpenAI's two, Anthropic's) each turn the same events into their own form.

import type { ChatConversation, ChatMessage, ChatTool, ToolChoice } from "../../chat/message.js";
import type { CompletionSummary, ServedModel } from "../../engine/serving.js";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import type { TextSegment } from "../../tokenizer/tokenizer.js";
import { type ChatEnding, type ChatEvent, ChoiceReader } from "./chat-reader.js";
import {
  checkCompletion,
  checkTexts,
  type CompletionSettings,
  deadlineOf,
  encodePrompts,
  type PromptTexts,
  runCompletion,
} from "./completion-run.js";
import { type Exchange, type ServerContext, withModel } from "./route-context.js";
import { totalCharacters } from "../schema/fields.js";
import { refuseField, RequestError } from "../http/request-error.js";
import type { RenderedChat } from "./services.js";
import { tokenText } from "./token-text.js";

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
  /** Prompt tokens taken from the prefix cache; 0 before the first event. */
  readonly cachedTokens: number;
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
    let cachedTokens = 0;
    const onBegin = (tokens: number): void => void (cachedTokens = tokens);
    const read: ChatRun["read"] = async (take) => {
      const stops = stopsOf(job, rendered);
      const tokenTextOf = (token: number): string => tokenText(model.tokenizer, token);
      const readers = Array.from(
        { length: job.choices },
        (_, choice) =>
          new ChoiceReader(choice, rendered.createParser(stops.inText ? stops.asked : []), stops, tokenTextOf),
      );
      const { maxTokens, sampling, choices, topLogprobs, ignoreEndOfGeneration } = job;
      const settings = {
        maxTokens,
        sampling,
        choices,
        topLogprobs,
        ignoreEndOfGeneration,
        stop: stops.inEngine,
        printedTokens: rendered.printedTokens,
      };
      const summary = await runCompletion(
        context,
        work,
        model,
        { ...settings, prompt, prompts: 1, deadlineMs, constraint, onBegin },
        async (piece, leave) => {
          const reader = readers[piece.choice];
          if (reader === undefined) throw new RangeError(`choice ${piece.choice} of ${choices} was never asked for`);
          for (const event of reader.read(piece)) await take(event);
          if (reader.ending !== undefined && piece.finished === undefined) leave();
        },
      );
      return outcomeOf(readers, summary);
    };
    return await use({
      model,
      promptTokens: prompt.length,
      get cachedTokens() {
        return cachedTokens;
      },
      read,
    });
  });
}

/** A required call, a call or a formatted answer, or the response format alone. */
function specOf({ format, toolChoice }: ChatJob, { callForms }: RenderedChat): GrammarSpec | undefined {
  if (callForms.length === 0) return format;
  const schema = demandsCall(toolChoice) ? undefined : schemaOf(format);
  return {
    kind: "forms",
    forms: schema === undefined ? callForms : [...callForms, { prefix: "", schema, suffix: "" }],
  };
}

function demandsCall({ kind }: ToolChoice): boolean {
  return kind === "required" || kind === "named";
}

/** The response format as a JSON schema; undefined if it is a regular expression or a grammar. */
function schemaOf(format: GrammarSpec | undefined): unknown {
  return format?.kind === "json" ? { type: "object" } : format?.kind === "schema" ? format.schema : undefined;
}

/**
 * A client's stop strings mean the text that it sees. Where there is more than that, they are looked for behind the
 * parser; a call that must be has no such text at all, and would be cut in the middle.
 */
function stopsOf({ stop, toolChoice }: ChatJob, rendered: RenderedChat) {
  const asked = demandsCall(toolChoice) ? [] : stop;
  const inText = rendered.hidesText;
  return { asked, inText, inEngine: inText ? rendered.stop : [...asked, ...rendered.stop] };
}

/** Tokens that were on their way when a choice had ended are no part of the answer. */
function outcomeOf(readers: readonly ChoiceReader[], summary: CompletionSummary): ChatOutcome {
  const endings = readers.map(({ ending }, choice) => {
    if (ending === undefined) throw new RangeError(`choice ${choice} has no end`);
    return ending;
  });
  return {
    endings,
    summary: { ...summary, generatedTokens: readers.reduce((sum, { generatedTokens }) => sum + generatedTokens, 0) },
  };
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
  if (room !== undefined)
    checkTexts(context, model, { texts: [certainSegments(asked.messages)], param: asked.fields.messages }, room);
  const rendered = await chat.render(model, conversationOf(asked), work.signal);
  totalCharacters([rendered.prompt], limits.promptCharacters, asked.fields.messages);
  if (logPrompts) request.log.info({ prompt: rendered.prompt }, "prompt");
  const texts: PromptTexts = {
    texts: [rendered.segments],
    addSpecial: rendered.addSpecial,
    param: asked.fields.messages,
  };
  if (room !== undefined) checkTexts(context, model, texts, room);
  const [prompt] = await encodePrompts(context, work, model, texts);
  return { rendered, prompt };
}

function conversationOf({
  messages,
  tools,
  toolChoice,
  thinking,
  templateOptions,
  format,
}: ChatPrompt): ChatConversation {
  const constrained = demandsCall(toolChoice) || format !== undefined;
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
  if (toolChoice.kind === "auto" && tools.length > 0 && format !== undefined && schemaOf(format) === undefined) {
    throw new RequestError(
      `[${fields.format}] a regular expression or a grammar cannot be combined with tools the model may call; use a JSON schema, or set tool_choice to "none"`,
      { status: 400, code: "unsupported_parameter", param: fields.format },
    );
  }
}

/** What every template writes; of what the model wrote itself some leave out thoughts. */
function certainSegments(messages: readonly ChatMessage[]): readonly TextSegment[] {
  return messages
    .filter(({ role }) => role !== "assistant")
    .map(({ content }) => ({ text: content, parseSpecial: false }));
}

function* textsOf(messages: readonly ChatMessage[]): Generator<string, void, undefined> {
  for (const { content, reasoning, toolCalls } of messages) {
    yield content;
    if (reasoning !== undefined) yield reasoning;
    for (const call of toolCalls ?? []) yield call.arguments;
  }
}
