// Tool calls in constrained decoding: the forms the output may take if the tool choice demands a call, or if a response
// format applies to answers that are not calls. One form per callable tool, in the model's own calling convention. Plain
// data that the grammar part compiles; the parser reads the result (see readForcedCall) and streams the arguments.

import { ChatError } from "../../errors.js";
import { CALL_CLOSE, CALL_OPEN, type CallContext } from "./call-context.js";
import { type CallConvention, MISTRAL_CALLS } from "./call-syntax.js";
import { JsonScanner } from "./json-scanner.js";
import { FUNCTION_CLOSE, FUNCTION_OPEN } from "./keyed-calls.js";
import type { ChatTool, ToolChoice } from "../message.js";
import type { Reading } from "./text-cursor.js";

/** Literal text, a value of a JSON schema, literal text. */
export interface ToolCallForm {
  /** The tool that the form calls. */
  readonly name: string;
  readonly prefix: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly suffix: string;
}

/**
 * The forms of the allowed calls. Empty if calls are not constrained: the choice is "none", or it is "auto" and there
 * is no response format.
 */
export function toolChoiceForms(
  convention: CallConvention,
  tools: readonly ChatTool[],
  choice: ToolChoice,
  constrained: boolean,
): readonly ToolCallForm[] {
  switch (choice.kind) {
    case "none":
      return [];
    case "auto":
      return constrained ? tools.map((tool) => callForm(convention, tool)) : [];
    case "required":
      if (tools.length === 0) throw impossible("the tool choice demands a call, and there are no tools");
      return tools.map((tool) => callForm(convention, tool));
    case "named": {
      const tool = tools.find(({ name }) => name === choice.name);
      if (tool === undefined)
        throw impossible(`the tool choice names ${JSON.stringify(choice.name)}, which is none of the tools`);
      return [callForm(convention, tool)];
    }
    default:
      choice satisfies never;
      return [];
  }
}

function callForm(convention: CallConvention, { name, parameters }: ChatTool): ToolCallForm {
  // Arguments are an object, even if the schema does not say so.
  return { name, schema: { type: "object", ...parameters }, ...wrapping(convention, name) };
}

function wrapping(convention: CallConvention, name: string): { readonly prefix: string; readonly suffix: string } {
  const spelled = JSON.stringify(name);
  switch (convention) {
    case "tagged-json":
      return { prefix: `${CALL_OPEN}\n{"name": ${spelled}, "arguments": `, suffix: `}\n${CALL_CLOSE}` };
    case "tagged-keys":
      // The model's own form has no JSON around the arguments; the name is written as usual.
      return { prefix: `${CALL_OPEN}${name}\n`, suffix: `\n${CALL_CLOSE}` };
    case "tagged-parameters":
      // As above, with JSON in place of the parameters.
      return { prefix: `${CALL_OPEN}\n${FUNCTION_OPEN}${name}>\n`, suffix: `\n${FUNCTION_CLOSE}\n${CALL_CLOSE}` };
    case "bracketed":
      return { prefix: `${MISTRAL_CALLS}[{"name": ${spelled}, "arguments": `, suffix: "}]" };
    case "python-tag":
      return { prefix: `{"name": ${spelled}, "parameters": `, suffix: "}" };
    case "bare-json":
      return { prefix: `{"name": ${spelled}, "arguments": `, suffix: "}" };
    default:
      convention satisfies never;
      return { prefix: "", suffix: "" };
  }
}

/**
 * Reads a call in one of the forms, reporting its arguments as they come; false, with nothing read, if the text is in
 * none of them.
 */
export function* readForcedCall({ cursor, sink }: CallContext, forms: readonly ToolCallForm[]): Reading<boolean> {
  for (const { name, prefix, suffix } of forms) {
    if (!(yield* cursor.literal(prefix))) continue;
    const index = sink.startCall(name);
    const scanner = new JsonScanner();
    yield* cursor.scan(scanner.scan, (text) => sink.callArguments(index, text));
    // A call that was cut off has no end, only the arguments so far.
    if (scanner.state !== "whole") return true;
    yield* cursor.literal(suffix);
    sink.endCall(index);
    return true;
  }
  return false;
}

function impossible(what: string): ChatError {
  return new ChatError("CHAT_TEMPLATE", `[chat] ${what}; choose "auto", or give the tool`, {
    details: { reason: what },
  });
}
