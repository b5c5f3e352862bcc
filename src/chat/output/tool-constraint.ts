// Tool calls in constrained decoding: the forms the output may take if the tool choice demands a call, or if a response
// format applies to answers that are not calls. One form per callable tool, in the model's own calling convention. Plain
// data that the grammar part compiles; the parser reads the result (see readForcedCalls) and streams the arguments.

import { ChatError } from "../../errors.js";
import type { CallContext } from "./call-context.js";
import type { ArgumentNotation, CallSeries, CallSpelling, ToolCallForm } from "./call-form.js";
import { type CallConvention, conventionOf } from "./conventions.js";
import { JsonScanner } from "./json-scanner.js";
import { MAP_NOTATION } from "./literal-calls.js";
import { mapArguments, PYTHON_NOTATION, pythonArguments } from "./literal-parser.js";
import { readBracketed } from "./literal-scanner.js";
import type { ChatConversation, ChatTool, ToolChoice } from "../message.js";
import { Markers, type Reading } from "./text-cursor.js";
import { typedArgument } from "./typed-arguments.js";

const NO_MARKERS = new Markers([]);

/** What the forms of a chat depend on, besides the tools. */
interface FormOptions {
  readonly choice: ToolChoice;
  /** Whether the answer has a response format. */
  readonly constrained: boolean;
  /** Calls in the chat so far. */
  readonly callsBefore?: number;
}

/**
 * The forms of the allowed calls. Empty if calls are not constrained: the choice is "none", or it is "auto" and there
 * is no response format.
 */
export function toolChoiceForms(
  convention: CallConvention,
  tools: readonly ChatTool[],
  { choice, constrained, callsBefore = 0 }: FormOptions,
): readonly ToolCallForm[] {
  const formOf = (tool: ChatTool): ToolCallForm => callForm(convention, tool, callsBefore);
  switch (choice.kind) {
    case "none":
      return [];
    case "auto":
      return constrained ? tools.map(formOf) : [];
    case "required":
      if (tools.length === 0) throw impossible("the tool choice demands a call, and there are no tools");
      return tools.map(formOf);
    case "named": {
      const tool = tools.find(({ name }) => name === choice.name);
      if (tool === undefined)
        throw impossible(`the tool choice names ${JSON.stringify(choice.name)}, which is none of the tools`);
      return [formOf(tool)];
    }
    default:
      choice satisfies never;
      return [];
  }
}

/** How several calls of a reply are spelled; undefined if it has one: a tool that was named is called once. */
export function callSeries(
  convention: CallConvention,
  { toolChoice, parallelCalls = true }: Pick<ChatConversation, "toolChoice" | "parallelCalls">,
): CallSeries | undefined {
  return parallelCalls && toolChoice.kind !== "named" ? conventionOf(convention).several : undefined;
}

/** A form without what stands around all calls of a series. */
export function formInSeries<Form extends CallSpelling>(form: Form, { open, close }: CallSeries): Form {
  const { prefix, suffix } = form;
  return { ...form, prefix: prefix.slice(open.length), suffix: suffix.slice(0, suffix.length - close.length) };
}

function callForm(convention: CallConvention, { name, parameters }: ChatTool, callsBefore: number): ToolCallForm {
  // Arguments are an object, even if the schema does not say so.
  return { name, schema: { type: "object", ...parameters }, ...conventionOf(convention).spell(name, callsBefore) };
}

/**
 * Reads calls in the forms, reporting their arguments as they come; false, with nothing read, if the text is in none of
 * them.
 */
export function* readForcedCalls(
  context: CallContext,
  forms: readonly ToolCallForm[],
  series: CallSeries | undefined,
): Reading<boolean> {
  const { cursor } = context;
  const isCall =
    series === undefined ? yield* readForcedCall(context, forms) : yield* readSeries(context, forms, series);
  // What follows is the end of the form, as far as it is no token that ends the generation.
  if (isCall) yield* cursor.until(NO_MARKERS, () => {});
  return isCall;
}

function* readSeries(context: CallContext, forms: readonly ToolCallForm[], series: CallSeries): Reading<boolean> {
  const { cursor } = context;
  const inside = forms.map((form) => formInSeries(form, series));
  // The forms of a convention end alike.
  const [{ suffix } = { suffix: "" }] = inside;
  if (!(yield* cursor.literal(series.open))) return false;
  if (!(yield* readForcedCall(context, inside))) {
    cursor.unread(series.open);
    return false;
  }
  while ((yield* cursor.literal(suffix)) && (yield* cursor.literal(series.separator)))
    if (!(yield* readForcedCall(context, inside))) break;
  return true;
}

function* readForcedCall(context: CallContext, forms: readonly ToolCallForm[]): Reading<boolean> {
  const { cursor, sink } = context;
  for (const form of forms) {
    if (!(yield* cursor.literal(form.prefix))) continue;
    const index = form.id === undefined ? sink.startCall(form.name) : sink.startCall(form.name, form.id);
    // A call that was cut off has no end, only the arguments so far.
    if (yield* readForcedArguments(context, form, (text) => sink.callArguments(index, text))) sink.endCall(index);
    return true;
  }
  return false;
}

/** Whether the arguments are complete. */
function* readForcedArguments(
  context: CallContext,
  form: ToolCallForm,
  give: (text: string) => void,
): Reading<boolean> {
  const { cursor, tools } = context;
  const { notation, suffix } = form;
  switch (notation?.kind) {
    case undefined: {
      const scanner = new JsonScanner();
      yield* cursor.scan(scanner.scan, give);
      return scanner.state === "whole";
    }
    case "fields":
      return yield* readFields(context, notation, { suffix, tool: tools.get(form.name), give });
    case "python": {
      // The prefix ends with the opening parenthesis.
      cursor.unread("(");
      const text = yield* readBracketed(cursor, PYTHON_NOTATION);
      const given = text === undefined ? undefined : pythonArguments(text.slice(1, -1), []);
      if (given === undefined) return false;
      cursor.unread(")");
      give(given);
      return true;
    }
    case "map": {
      const text = yield* readBracketed(cursor, MAP_NOTATION);
      const given = text === undefined ? undefined : mapArguments(text, MAP_NOTATION);
      if (given === undefined) return false;
      give(given);
      return true;
    }
    default:
      notation satisfies never;
      return false;
  }
}

interface FieldReading {
  readonly suffix: string;
  readonly tool: ChatTool | undefined;
  give(text: string): void;
}

/** Reads one field after another up to the suffix, and gives each as a member of an object when it is complete. */
function* readFields(
  { cursor }: CallContext,
  notation: ArgumentNotation & { readonly kind: "fields" },
  { suffix, tool, give }: FieldReading,
): Reading<boolean> {
  const opened = new Markers([...new Set([notation.text, notation.json])]);
  const closes = new Markers([notation.close]);
  let count = 0;
  for (; !(yield* cursor.literal(suffix)); count++) {
    if (!(yield* cursor.literal(notation.open))) return false;
    let [key, value] = ["", ""];
    const between = yield* cursor.until(opened, (text) => (key += text));
    const isText = notation.text !== notation.json && between === notation.text;
    if (between === undefined || (yield* cursor.until(closes, (text) => (value += text))) === undefined) return false;
    give(`${count === 0 ? "{" : ","}${JSON.stringify(key)}:${typedArgument({ key, value, isText }, tool)}`);
  }
  give(count === 0 ? "{}" : "}");
  cursor.unread(suffix);
  return true;
}

function impossible(what: string): ChatError {
  return new ChatError("CHAT_TEMPLATE", `[chat] ${what}; choose "auto", or give the tool`, {
    details: { reason: what },
  });
}
