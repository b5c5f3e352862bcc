// The chat format of one model: its template (or the default that fits its vocabulary) and its convention for calls and
// reasoning. Renders a conversation to the prompt and everything that parsing the reply needs.

import { ChatError } from "../errors.js";
import { findCapabilities, type TemplateCapabilities } from "./template/capabilities.js";
import type { ChatTemplates } from "./template/chat-templates.js";
import type { AnswerForm, CallSeries, ThoughtForm, ToolCallForm } from "./output/call-form.js";
import {
  answerMarks,
  callConvention,
  openedReasoning,
  opensReasoning,
  reasoningMarks,
  replyMarks,
} from "./output/convention.js";
import { type CallConvention, conventionOf } from "./output/conventions.js";
import { defaultTemplate } from "./template/default-templates.js";
import type { ChatConversation, ChatMessage, ChatParser, ChatTool } from "./message.js";
import { ChatOutputParser, type ReasoningMarks } from "./output/output-parser.js";
import { type PromptSegment, PromptText } from "./prompt-text.js";
import type { TemplateRunner, TemplateVariables } from "./template/template-runner.js";
import { messageVariables } from "./template/template-variables.js";
import { thinkingVariables } from "./template/thinking-variables.js";
import { NO_TOOLS, toolsVariables } from "./template/tool-variables.js";
import { callSeries, toolChoiceForms } from "./output/tool-constraint.js";

/** The part of a tokenizer that rendering a chat needs. */
export interface ChatTokenizer {
  readonly bosToken: number | undefined;
  readonly eosToken: number | undefined;
  readonly addsBos: boolean;
  encode(text: string, options?: { readonly addSpecial?: boolean; readonly parseSpecial?: boolean }): Int32Array;
  tokenText(id: number): string;
}

/** A conversation as a prompt, with everything that generating and parsing the reply needs. */
export interface RenderedChat {
  /** The prompt as text, for logs and limits; the tokenizer is given the segments. */
  readonly prompt: string;
  /** The prompt in segments: only text that the template wrote may become control tokens, whatever messages contain. */
  readonly segments: readonly PromptSegment[];
  /**
   * The prompt of a next turn, with another reply than the model's, if it was asked for and can be rendered. What both
   * have in common is shared by every next turn; templates may leave out the generation prompt and earlier reasoning.
   */
  readonly nextTurn?: readonly PromptSegment[] | undefined;
  /** Whether the tokenizer adds BOS; false if the template wrote it. */
  readonly addSpecial: boolean;
  /** Stop strings of the model's own convention, besides its end-of-generation tokens. */
  readonly stop: readonly string[];
  /** Control tokens whose text is part of the reply, such as the marks of a tool call; decoding prints them. */
  readonly printedTokens: ReadonlySet<number>;
  /** The forms that a tool call may take if decoding is constrained and a call is allowed; empty otherwise. */
  readonly callForms: readonly Omit<ToolCallForm, "name">[];
  /** How calls in these forms may follow one another; undefined if there may be one only. */
  readonly callSeries: CallSeries | undefined;
  /** What stands around an answer that is no call, if decoding is constrained and a call is allowed. */
  readonly answerForm: AnswerForm;
  /** The reasoning that comes before constrained text; undefined if there is none. */
  readonly thought: ThoughtForm | undefined;
  /** Whether the generated text may contain reasoning or tool calls, which are no part of the visible text. */
  readonly hidesText: boolean;
  /** A parser for one choice; `stops` are the stop strings that are matched against its visible text. */
  createParser(stops?: readonly string[]): ChatParser;
}

/** Stands for a reply and the message that follows it. */
const NEXT_MESSAGES: readonly ChatMessage[] = [
  { role: "assistant", content: "Yes." },
  { role: "user", content: "Why?" },
];

const NO_ANSWER_FORM: AnswerForm = { prefix: "", suffix: "" };

/** Variables that the chat sets, and template options may not. */
const RESERVED_VARIABLES = [
  "messages",
  "tools",
  "xml_tools",
  "add_generation_prompt",
  "bos_token",
  "eos_token",
  "raise_exception",
  "strftime_now",
  "range",
  "namespace",
];

/** What a prompt is rendered for. */
interface PromptDemands {
  readonly template: string;
  readonly capabilities: TemplateCapabilities;
  readonly convention: CallConvention;
  readonly tools: readonly ChatTool[];
  readonly thinking: boolean | undefined;
  /** Whether the generation prompt is left out; false by default. */
  readonly endsWithMessages?: boolean;
}

interface Dialect {
  readonly template: string;
  readonly stop: readonly string[];
  readonly trimsStart: boolean;
}

/** The chat format of one model. */
export class ChatFormat {
  readonly #runner: TemplateRunner;
  readonly #tokenizer: ChatTokenizer;
  readonly #plain: Dialect;
  readonly #toolUse: Dialect;
  readonly #tokens: TemplateVariables & { readonly bos_token: string; readonly eos_token: string };
  readonly #capabilities = new Map<string, Promise<TemplateCapabilities>>();

  constructor(runner: TemplateRunner, tokenizer: ChatTokenizer, templates: ChatTemplates) {
    this.#runner = runner;
    this.#tokenizer = tokenizer;
    const own = (template: string): Dialect => ({ template, stop: [], trimsStart: false });
    this.#plain = templates.default === undefined ? defaultTemplate(this.#hasToken) : own(templates.default);
    this.#toolUse = templates.toolUse === undefined ? this.#plain : own(templates.toolUse);
    const text = (id: number | undefined): string => (id === undefined ? "" : tokenizer.tokenText(id));
    this.#tokens = { bos_token: text(tokenizer.bosToken), eos_token: text(tokenizer.eosToken) };
  }

  async render(conversation: ChatConversation, signal?: AbortSignal): Promise<RenderedChat> {
    const tools = conversation.toolChoice.kind === "none" ? [] : conversation.tools;
    const { template, stop, trimsStart } = tools.length > 0 ? this.#toolUse : this.#plain;
    const capabilities = await this.#capabilitiesOf(template);
    const told = callConvention(template, this.#hasToken);
    // A template that shows calls, but no tools, leaves it to the system message to describe them.
    const knows = capabilities.tools !== undefined || capabilities.calls !== undefined;
    const convention = knows || conventionOf(told).marksReply === true ? told : "bare-json";
    const callsBefore = conversation.messages.reduce((count, { toolCalls = [] }) => count + toolCalls.length, 0);
    const forms = toolChoiceForms(convention, tools, {
      choice: conversation.toolChoice,
      constrained: conversation.constrained,
      callsBefore,
    });
    const constrained = conversation.constrained || forms.length > 0;
    // Constrained text is reasoned about if the request asks for that, or if the template has no switch.
    const thinking = constrained ? conversation.thinking === true : conversation.thinking;
    const demands = { template, capabilities, convention, tools, thinking };
    const rendered = await this.#prompt(conversation, demands, signal);
    const nextTurn =
      conversation.showsNextTurn === true ? await this.#nextTurn(conversation, demands, signal) : undefined;
    const reasoning = reasoningMarks(template, this.#hasToken, convention) ?? openedReasoning(rendered, convention);
    const open = opensReasoning(rendered, reasoning);
    const { answer = NO_ANSWER_FORM, stops = [], marksReply = false } = conventionOf(convention);
    const around = answerMarks(template, convention);
    // The prompt ends with what stands in front of an answer without a choice, so that no thought can follow.
    const thinks = constrained && (forms.length > 0 || answer.prefix === "");
    const marks = reasoning ?? conventionOf(convention).thought;
    const thought = thinks ? thoughtForm(marks, rendered, conversation.thinking) : undefined;
    const series = callSeries(convention, conversation);
    const common = { convention, trimsStart, forms, series, constrained };
    // Constrained text keeps every space, and contains a call only in one of the forms.
    const parsing = constrained
      ? {
          ...common,
          tools: forms.length > 0 ? tools : [],
          reasoning: thought === undefined ? undefined : marks,
          reasoningOpen: thought !== undefined && open,
          trimsStart: false,
        }
      : { ...common, tools, reasoning, reasoningOpen: open };
    const settled = open && constrained && thought === undefined ? closed(rendered, reasoning) : rendered;
    // With a choice between calls and an answer, the grammar writes what is around the answer.
    const prompt = this.#withBos(constrained && forms.length === 0 ? settled.withTrusted(answer.prefix) : settled);
    return {
      prompt: prompt.text,
      segments: prompt.segments(),
      nextTurn: nextTurn?.segments(),
      addSpecial: false,
      stop: tools.length > 0 && !constrained ? [...stop, ...stops] : stop,
      printedTokens: this.#controlTokens([...replyMarks(convention, reasoning), ...around]),
      callForms: forms,
      callSeries: series,
      answerForm: answer,
      thought,
      hidesText: reasoning !== undefined || tools.length > 0 || marksReply || around.length > 0,
      createParser: (requested = []) =>
        new ChatOutputParser({ ...parsing, stops: requested, answer, answerMarks: around }),
    };
  }

  async #prompt(
    { messages, templateOptions }: ChatConversation,
    { template, capabilities, convention, tools, thinking, endsWithMessages = false }: PromptDemands,
    signal: AbortSignal | undefined,
  ): Promise<PromptText> {
    const context = { capabilities, convention, developers: template.includes("developer") };
    const variables = {
      // As in Transformers, this is defined whether there are documents or not.
      documents: null,
      ...thinkingVariables(template, convention, thinking, checkedOptions(templateOptions)),
      ...this.#tokens,
      messages: messageVariables(messages, tools, context),
      ...(capabilities.takesNoTools ? NO_TOOLS : {}),
      ...toolsVariables(template, tools, capabilities.tools),
      add_generation_prompt: !endsWithMessages,
    };
    return new PromptText(await this.#runner.render(template, variables, signal));
  }

  /**
   * The prompt of a next turn, or the messages without the generation prompt if the template refuses that; undefined if
   * it refuses both or a limit is exceeded.
   */
  async #nextTurn(
    conversation: ChatConversation,
    demands: PromptDemands,
    signal: AbortSignal | undefined,
  ): Promise<PromptText | undefined> {
    const followed = { ...conversation, messages: [...conversation.messages, ...NEXT_MESSAGES] };
    const attempts = [
      { of: followed, demands },
      { of: conversation, demands: { ...demands, endsWithMessages: true } },
    ];
    for (const attempt of attempts) {
      try {
        return this.#withBos(await this.#prompt(attempt.of, attempt.demands, signal));
      } catch {
        signal?.throwIfAborted();
      }
    }
    return undefined;
  }

  /** Detected once for each template, even if the first request for it was aborted; a failure is retried. */
  #capabilitiesOf(template: string): Promise<TemplateCapabilities> {
    const known = this.#capabilities.get(template);
    if (known !== undefined) return known;
    const found = findCapabilities(this.#runner, template, this.#tokens);
    this.#capabilities.set(template, found);
    found.catch(() => this.#capabilities.delete(template));
    return found;
  }

  #withBos(prompt: PromptText): PromptText {
    const { bos_token: bos } = this.#tokens;
    return this.#tokenizer.addsBos && !prompt.startsWith(bos) ? prompt.withStart(bos) : prompt;
  }

  readonly #hasToken = (text: string): boolean => this.#tokensOf(text).length === 1;

  #tokensOf(text: string): Int32Array {
    return this.#tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
  }

  #controlTokens(texts: readonly string[]): ReadonlySet<number> {
    return new Set(
      texts.flatMap((text) => {
        const tokens = this.#tokensOf(text);
        return tokens.length === 1 ? [...tokens] : [];
      }),
    );
  }
}

/** The reasoning before constrained text: what the template opens, unless it was refused, and what was asked for. */
function thoughtForm(
  marks: ReasoningMarks | undefined,
  prompt: PromptText,
  thinking: boolean | undefined,
): ThoughtForm | undefined {
  if (marks === undefined) return undefined;
  if (prompt.endsWith(marks.open)) return thinking === false ? undefined : { open: undefined, close: marks.close };
  // Seed's template opens a block in which there is nothing to think.
  return thinking === true && !opensReasoning(prompt, marks) ? { open: marks.open, close: marks.close } : undefined;
}

/** Closes the reasoning block that the template opened although the model is not to reason. */
function closed(prompt: PromptText, marks: ReasoningMarks | undefined): PromptText {
  return prompt.withEnd(marks?.closing ?? `\n\n${marks?.close}\n\n`);
}

function checkedOptions(options: TemplateVariables): TemplateVariables {
  for (const name of Object.keys(options)) {
    if (!RESERVED_VARIABLES.includes(name)) continue;
    throw new ChatError(
      "CHAT_TEMPLATE",
      `[chat template] expected options of the template itself, found "${name}", which the chat sets; leave it out`,
      {
        details: { option: name },
      },
    );
  }
  return options;
}
