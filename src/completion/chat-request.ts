// A chat request as plain data, and its resolution: defaults, checks of tools and response format, and the grammar and
// the stop strings that follow from them. Invariant: nothing here knows HTTP or an API's names for its fields.

import type { RenderedChat } from "../chat/chat-format.js";
import { formInSeries } from "../chat/output/tool-constraint.js";
import type { ChatConversation, ChatMessage, ChatTool, ToolChoice } from "../chat/message.js";
import { ServingError } from "../errors.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import type { TextSegment } from "../tokenizer/tokenizer.js";
import type { CompletionSettings } from "./completion-run.js";
import { refuseRequest } from "./request-check.js";

/** The part of a chat request that determines its prompt. */
export interface ChatPrompt {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | undefined;
  /** By default "auto" if there are tools, "none" otherwise. */
  readonly toolChoice?: ToolChoice | undefined;
  /** Whether a reply may have several calls; true by default. */
  readonly parallelToolCalls?: boolean | undefined;
  /** The form of the reply's text: any JSON object, a JSON schema, a regular expression or a grammar. */
  readonly responseFormat?: GrammarSpec | undefined;
  /** Whether the model reasons before it replies; undefined leaves that to its template. */
  readonly reasoning?: boolean | undefined;
  /** Further variables for the model's chat template. */
  readonly templateOptions?: Readonly<Record<string, unknown>> | undefined;
}

/** A chat, and how its reply is generated. */
export interface ChatRequest extends ChatPrompt, CompletionSettings {}

type ResolvedPrompt = {
  readonly [Name in Exclude<keyof ChatPrompt, "responseFormat" | "reasoning">]-?: NonNullable<ChatPrompt[Name]>;
} & { readonly responseFormat: GrammarSpec | undefined; readonly reasoning: boolean | undefined };

/** Fills in defaults; refuses tool choices and response formats that contradict the tools. */
export function resolvePrompt({
  messages,
  tools = [],
  toolChoice = { kind: tools.length > 0 ? "auto" : "none" },
  parallelToolCalls = true,
  responseFormat,
  reasoning,
  templateOptions = {},
}: ChatPrompt): ResolvedPrompt {
  if (toolChoice.kind === "named" && !tools.some(({ name }) => name === toolChoice.name))
    refuseRequest("toolChoice", "the name of one of the tools", JSON.stringify(toolChoice.name));
  if (toolChoice.kind === "required" && tools.length === 0) refuseRequest("toolChoice", "tools to choose from", "none");
  const isUnstructured = responseFormat !== undefined && schemaOf(responseFormat) === undefined;
  if (toolChoice.kind === "auto" && tools.length > 0 && isUnstructured) {
    throw new ServingError(
      "SERVING_UNSUPPORTED",
      "[responseFormat] a regular expression or a grammar cannot be combined with tools the model may call; use a JSON schema, or allow no tool calls",
      { details: { field: "responseFormat" } },
    );
  }
  return { messages, tools, toolChoice, parallelToolCalls, responseFormat, reasoning, templateOptions };
}

/** The conversation that the model's template renders. */
export function promptConversation(prompt: ResolvedPrompt): ChatConversation {
  const { messages, tools, toolChoice, parallelToolCalls, responseFormat, reasoning, templateOptions } = prompt;
  const constrained = requiresCall(toolChoice) || responseFormat !== undefined;
  return {
    messages,
    tools: toolChoice.kind === "none" ? [] : tools,
    toolChoice,
    parallelCalls: parallelToolCalls,
    thinking: reasoning,
    constrained,
    templateOptions,
  };
}

type RenderedForms = Pick<RenderedChat, "callForms" | "callSeries" | "answerForm" | "thought">;

/** The grammar that the generated text must follow, behind its reasoning. */
export function grammarOf(prompt: ResolvedPrompt, rendered: RenderedForms): GrammarSpec | undefined {
  const rest = replyGrammar(prompt, rendered);
  if (rest === undefined || rendered.thought === undefined) return rest;
  const { open, close } = rendered.thought;
  return { kind: "thought", ...(open === undefined ? {} : { open }), close, rest };
}

/** Required calls, calls or formatted text, or the format alone. */
function replyGrammar(
  { responseFormat, toolChoice }: ResolvedPrompt,
  { callForms, callSeries, answerForm }: RenderedForms,
): GrammarSpec | undefined {
  if (callForms.length === 0) return responseFormat;
  const schema = requiresCall(toolChoice) ? undefined : schemaOf(responseFormat);
  const answers = schema === undefined ? [] : [{ ...answerForm, schema }];
  if (callSeries === undefined) return { kind: "forms", forms: [...callForms, ...answers] };
  const forms = callForms.map((form) => formInSeries(form, callSeries));
  return { kind: "forms", forms: answers, series: { ...callSeries, forms } };
}

/** The stop strings of a chat, and where they are matched. */
export interface ChatStops {
  /** The stop strings of the request. */
  readonly requested: readonly string[];
  /** Whether the requested ones are matched against the visible text, instead of by the engine. */
  readonly inText: boolean;
  /** The stop strings that the engine matches. */
  readonly inEngine: readonly string[];
}

/**
 * A requested stop string means the text that the client sees. If the generated text holds more than that, it is matched
 * behind the parser; a required call has no visible text, and a stop string would cut it in the middle.
 */
export function chatStops(
  requested: readonly string[],
  { toolChoice }: ResolvedPrompt,
  { hidesText, stop }: RenderedChat,
): ChatStops {
  const own = requiresCall(toolChoice) ? [] : requested;
  return { requested: own, inText: hidesText, inEngine: hidesText ? stop : [...own, ...stop] };
}

/** Segments that every template writes; some templates leave out the reasoning of earlier replies. */
export function certainSegments(messages: readonly ChatMessage[]): readonly TextSegment[] {
  return messages
    .filter(({ role }) => role !== "assistant")
    .map(({ content }) => ({ text: content, parseSpecial: false }));
}

/** Every text of the messages. */
export function* messageTexts(messages: readonly ChatMessage[]): Generator<string, void, undefined> {
  for (const { content, reasoning, toolCalls } of messages) {
    yield content;
    if (reasoning !== undefined) yield reasoning;
    for (const call of toolCalls ?? []) yield call.arguments;
  }
}

function requiresCall({ kind }: ToolChoice): boolean {
  return kind === "required" || kind === "named";
}

/** The response format as a JSON schema; undefined if it is a regular expression or a grammar. */
function schemaOf(format: GrammarSpec | undefined): unknown {
  return format?.kind === "json" ? { type: "object" } : format?.kind === "schema" ? format.schema : undefined;
}
