// Detects a model's convention for tool calls and reasoning from its template and vocabulary, never from its name:
// versions of one family differ, and the template is what the model was trained with.

import { CALL_OPEN } from "./call-context.js";
import {
  type CallConvention,
  conventionOf,
  MISTRAL_ARGUMENTS,
  MISTRAL_CALL_ID,
  MISTRAL_CALLS,
  PYTHON_TAG,
} from "./conventions.js";
import { KEY_MARKS, LINE_PARAMETERS } from "./keyed-calls.js";
import type { ReasoningMarks } from "./output-parser.js";
import type { PromptText } from "../prompt-text.js";

/** The first whose closing mark a template writes, or whose marks are both tokens of the vocabulary. */
const REASONING: readonly ReasoningMarks[] = [
  {
    open: "<seed:think>",
    close: "</seed:think>",
    // The template opens it so if there is no budget for thinking.
    label: "<seed:cot_budget_reflect>",
    closing: "</seed:cot_budget_reflect></seed:think>",
  },
  { open: "<|START_THINKING|>", close: "<|END_THINKING|>" },
  { open: "<|inner_prefix|>", close: "<|inner_suffix|>" },
  { open: "<|channel>", close: "<channel|>", label: "thought" },
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
  // Apriel, whose template or whose model opens it with these words.
  { open: "Here are my reasoning steps:", close: "[BEGIN FINAL RESPONSE]", closing: "\n[BEGIN FINAL RESPONSE]\n" },
];

/** Marks that only one convention has, by which its templates are recognised; the first that a template has decides. */
const TELLTALES: readonly (readonly [mark: string, convention: CallConvention])[] = [
  ["<|constrain|>", "harmony"],
  ["<|tool_call:begin|>", "marked-parts"],
  ["<|tool_call>", "quoted-map"],
  ["<|tool_calls_section_begin|>", "numbered-json"],
  ["<minimax:tool_call>", "named-parameters"],
  ["<seed:tool_call>", "seed-parameters"],
  ["<|tool_call_start|>", "python-calls"],
  ["<|tool_list_start|>", "python-calls"],
  ["<|tools_prefix|>", "keyed-list"],
  ["<|START_TEXT|>", "action-text"],
  ["<|START_ACTION|>", "action-list"],
  ["<TOOLCALL>", "capital-list"],
  ["<|/tool_call|>", "closed-list"],
  ["<|/tool|>", "closed-list"],
  ["<|tool_call|>", "open-list"],
  ["<function_calls>", "python-lines"],
  // Apriel 1.5 mentions the tags of single calls, too.
  ["<tool_calls>[", "tagged-list"],
  ["<|python_start|>", "python-span"],
  ["<|function_call|>", "marked-json"],
  [">>>${recipient}", "recipients"],
  [">>>all\\n", "recipients"],
];

/** Tokens of the vocabulary that tell the convention if the template does not. */
const TELLTALE_TOKENS: readonly (readonly [token: string, convention: CallConvention])[] = [
  ["<|tool_call_start|>", "python-calls"],
  ["<|tool_call>", "quoted-map"],
  ["<|tool_calls_section_begin|>", "numbered-json"],
  ["<|tool_call:begin|>", "marked-parts"],
  ["<minimax:tool_call>", "named-parameters"],
  ["<seed:tool_call>", "seed-parameters"],
  ["<|tools_prefix|>", "keyed-list"],
  ["<|START_ACTION|>", "action-list"],
  ["<｜tool▁call▁begin｜>", "separated-json"],
  [MISTRAL_ARGUMENTS, "bracketed-arguments"],
  [MISTRAL_CALLS, "bracketed"],
];

/** A line break in a template is one, or its escape in a string. */
const KEYS_ON_LINES = /<\/arg_key>(?:\\n|\r?\n)|(?:\\n|\n)<arg_value>/;
const CALL_ON_LINES = /<tool_call>(?:\\n|\r?\n)/;

/** Whether a text is one token of the vocabulary. */
export type HasToken = (text: string) => boolean;

/** The convention for tool calls that a template was written for. */
export function callConvention(template: string, hasToken: HasToken = () => false): CallConvention {
  const has = (text: string): boolean => template.includes(text);
  if (has("<|start|>assistant") && has("<|end|>")) return "harmony";
  const told = TELLTALES.find(([mark]) => has(mark));
  if (told !== undefined) return told[1];
  // The mark is a variable of these templates, and not next to the names of tags.
  if (has("｜DSML｜")) return has("function_calls>") ? "typed-parameters" : "typed-calls";
  if (has(MISTRAL_CALLS)) {
    if (!has(MISTRAL_ARGUMENTS)) return "bracketed";
    return has(MISTRAL_CALL_ID) ? "bracketed-ids" : "bracketed-arguments";
  }
  if (has("<｜tool▁call▁begin｜>")) return has("```json") ? "separated-fence" : "separated-json";
  if (has(KEY_MARKS[0])) return has(KEY_MARKS[2]) && !KEYS_ON_LINES.test(template) ? "joined-keys" : "tagged-keys";
  if (has(CALL_OPEN)) {
    if (has(LINE_PARAMETERS.parameterOpen)) return "tagged-parameters";
    // Bielik's template shows a call in one line, and writes it in three.
    return has(`${CALL_OPEN}{`) && !CALL_ON_LINES.test(template) ? "joined-json" : "tagged-json";
  }
  if (has("Action:") && has("tool_name")) return "action-fence";
  if (has("<tool_calls>")) return "tagged-lines";
  if (has(LINE_PARAMETERS.functionOpen) && has(LINE_PARAMETERS.functionClose)) return "function-json";
  if (has(PYTHON_TAG) || (has("<|start_header_id|>") && has('"parameters"'))) return "python-tag";
  return TELLTALE_TOKENS.find(([token]) => hasToken(token))?.[1] ?? "bare-json";
}

/** The marks around reasoning; undefined if the model does not reason, or if its convention reads reasoning itself. */
export function reasoningMarks(
  template: string,
  hasToken: HasToken,
  convention: CallConvention = "bare-json",
): ReasoningMarks | undefined {
  if (conventionOf(convention).marksReply === true && convention !== "recipients") return undefined;
  return REASONING.find(({ open, close }) => template.includes(close) || (hasToken(open) && hasToken(close)));
}

/** Whether a template knows reasoning, as far as its text shows: the vocabulary may add marks that it does not mention. */
export function templateCanReason(template: string): boolean {
  const convention = callConvention(template);
  return (
    conventionOf(convention).thought !== undefined || reasoningMarks(template, () => false, convention) !== undefined
  );
}

/** The marks of a reasoning block that only the prompt shows, because the template never closes it (OLMo 3 Think). */
export function openedReasoning(prompt: PromptText, convention: CallConvention): ReasoningMarks | undefined {
  if (conventionOf(convention).marksReply === true) return undefined;
  return REASONING.find((marks) => opensReasoning(prompt, marks));
}

/** Marks around an answer behind reasoning. */
const ANSWERS: readonly { readonly marks: readonly string[]; told(has: (text: string) => boolean): boolean }[] = [
  // Granite 3.3, whose template mentions the pairs. Others write the results of tools in the same tags.
  {
    marks: ["<response>", "</response>"],
    told: (has) => has("<think></think>") && has("<response></response>"),
  },
  // ERNIE 4.5, whose template writes an answer in them.
  { marks: ["<response>", "</response>"], told: (has) => has("think_mode=") && has("</response>") },
  // Hunyuan A13B.
  { marks: ["<answer>", "</answer>"], told: (has) => has("</think>") && (has("</answer>") || has("<|extra_0|>")) },
  // Apriel.
  { marks: ["[END FINAL RESPONSE]"], told: (has) => has("[BEGIN FINAL RESPONSE]") },
];

/** Marks around an answer, which are no part of its text. */
export function answerMarks(template: string, convention: CallConvention): readonly string[] {
  const has = (text: string): boolean => template.includes(text);
  return conventionOf(convention).answerMarks ?? ANSWERS.find(({ told }) => told(has))?.marks ?? [];
}

/** Whether the prompt ends inside a reasoning block, so that the reply begins with reasoning. */
export function opensReasoning(prompt: PromptText, marks: ReasoningMarks | undefined): boolean {
  return marks !== undefined && (prompt.endsWith(marks.open) || prompt.endsWith(`${marks.open}${marks.label ?? ""}`));
}

/** Marks in a reply that may be control tokens of the vocabulary. */
export function replyMarks(convention: CallConvention, reasoning: ReasoningMarks | undefined): readonly string[] {
  return [...conventionOf(convention).marks, ...(reasoning === undefined ? [] : [reasoning.open, reasoning.close])];
}
