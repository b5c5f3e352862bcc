// Detects a model's convention for tool calls and reasoning from its template and vocabulary, never from its name:
// versions of one family differ, and the template is what the model was trained with.

import { CALL_OPEN } from "./call-context.js";
import { CALL_MARKERS, type CallConvention, MISTRAL_CALLS, PYTHON_TAG } from "./call-syntax.js";
import { PARAMETER_OPEN } from "./keyed-calls.js";
import type { ReasoningMarks } from "./output-parser.js";
import type { PromptText } from "../prompt-text.js";

const REASONING: readonly ReasoningMarks[] = [
  { open: "<think>", close: "</think>" },
  { open: "[THINK]", close: "[/THINK]" },
];

/** Whether a text is one token of the vocabulary. */
export type HasToken = (text: string) => boolean;

/** The convention for tool calls that a template was written for. */
export function callConvention(template: string): CallConvention {
  if (template.includes(MISTRAL_CALLS)) return "bracketed";
  if (template.includes("<arg_key>")) return "tagged-keys";
  if (template.includes(CALL_OPEN)) return template.includes(PARAMETER_OPEN) ? "tagged-parameters" : "tagged-json";
  if (template.includes(PYTHON_TAG) || (template.includes("<|start_header_id|>") && template.includes('"parameters"')))
    return "python-tag";
  return "bare-json";
}

/** The marks around reasoning; undefined if the model does not reason. */
export function reasoningMarks(template: string, hasToken: HasToken): ReasoningMarks | undefined {
  return REASONING.find(({ open, close }) => template.includes(close) || (hasToken(open) && hasToken(close)));
}

/** Whether the prompt ends inside a reasoning block, so that the reply begins with reasoning. */
export function opensReasoning(prompt: PromptText, marks: ReasoningMarks | undefined): boolean {
  return marks !== undefined && prompt.endsWith(marks.open);
}

/** Marks in a reply that may be control tokens of the vocabulary. */
export function answerMarks(convention: CallConvention, reasoning: ReasoningMarks | undefined): readonly string[] {
  return [...CALL_MARKERS[convention], ...(reasoning === undefined ? [] : [reasoning.open, reasoning.close])];
}
