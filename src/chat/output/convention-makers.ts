// What conventions for tool calls have in common, and the makers of those that several families share: lists, keys and
// values, parameters in tags, sections.

import { CALL_CLOSE, CALL_OPEN, type CallContext, type CallSyntax, isFunctionName } from "./call-context.js";
import { type AnswerForm, type CallSeries, type CallSpelling, taggedFields } from "./call-form.js";
import { listedCalls, orHermes, readHermesCall } from "./json-calls.js";
import { KEY_MARKS, type ParameterStyle, readFunctionCall, readKeyedCall } from "./keyed-calls.js";
import { closedBy, markedCalls } from "./marked-calls.js";
import { readInvocations } from "./named-calls.js";
import { sectionCalls, sectionlessCall, type SectionMarks } from "./sectioned-calls.js";
import type { Reading } from "./text-cursor.js";

/** A convention for tool calls. */
export interface Convention {
  /** Marks that may be control tokens of the vocabulary; the readers need their text. */
  readonly marks: readonly string[];
  /** Reads a reply behind its reasoning. */
  readonly read: CallSyntax;
  /** Whether replies are marked up even without tools, so that `read` reads all of them. */
  readonly marksReply?: true;
  /** The spelling of a call, with the number of calls before it in the chat. */
  readonly spell: (name: string, callsBefore: number) => CallSpelling;
  /** How several calls are spelled; undefined if a reply has one, or if each has a number of its own. */
  readonly several?: CallSeries;
  /** The marks of a thought in front of a call that is demanded, if every part of a reply is marked. */
  readonly thought?: { readonly open: string; readonly close: string };
  /** What the model writes around an answer. */
  readonly answer?: AnswerForm;
  /** Marks around the answer, which are no part of its text. */
  readonly answerMarks?: readonly string[];
  /** Strings behind which the model would continue with the results of its calls. */
  readonly stops?: readonly string[];
  /** Marks of calls that end the reasoning, too. */
  readonly endsReasoning?: readonly string[];
  /** The form of ids that the templates demand. */
  readonly ids?: "nine characters" | "numbered";
}

/** Calls that are spelled one after another, each as if it were alone. */
export function inSeries(separator: string): CallSeries {
  return { open: "", separator, close: "" };
}

/** `{"name": …, "arguments": …}` between two texts. */
export function jsonSpelling(prefix: string, suffix: string, argumentsKey = "arguments"): Convention["spell"] {
  return (name) => ({
    prefix: `${prefix}{"name": ${JSON.stringify(name)}, "${argumentsKey}": `,
    suffix: `}${suffix}`,
  });
}

/** A call in JSON between tags, on lines or not. */
export function jsonConvention(line: "\n" | ""): Convention {
  return {
    marks: [CALL_OPEN, CALL_CLOSE],
    read: (context) => markedCalls(context, { [CALL_OPEN]: closedBy(CALL_CLOSE, readHermesCall) }),
    spell: jsonSpelling(`${CALL_OPEN}${line}`, `${line}${CALL_CLOSE}`),
    several: inSeries("\n"),
  };
}

/** A list of JSON calls between two marks; the second may be missing. */
export function listConvention(open: string, close: string | undefined): Convention {
  return {
    marks: close === undefined ? [open] : [open, close],
    read: (context) => markedCalls(context, { [open]: listedCalls(close === undefined ? {} : { close }) }),
    spell: jsonSpelling(`${open}[`, `]${close ?? ""}`),
    several: { open: `${open}[`, separator: ", ", close: `]${close ?? ""}` },
  };
}

/** Keys and values in tags of their own, on lines or not. */
export function keyConvention(line: "\n" | ""): Convention {
  const notation = taggedFields(
    "<arg_key>",
    [`</arg_key>${line}<arg_value>`, `</arg_key>${line}<arg_value>`],
    `</arg_value>${line}`,
  );
  return {
    marks: [CALL_OPEN, CALL_CLOSE, ...KEY_MARKS],
    read: (context) => markedCalls(context, { [CALL_OPEN]: closedBy(CALL_CLOSE, orHermes(readKeyedCall)) }),
    spell: (name) => ({ prefix: `${CALL_OPEN}${name}${line}`, suffix: CALL_CLOSE, notation }),
    several: inSeries(line),
  };
}

function parameterFields({ parameterOpen, textOpened, jsonOpened, parameterClose, line }: ParameterStyle) {
  return taggedFields(parameterOpen, [textOpened + line, jsonOpened + line], `${line}${parameterClose}\n`);
}

/** A tag for each parameter, inside one for the function, inside one for the call. */
export function parameterConvention(open: string, close: string, style: ParameterStyle): Convention {
  function* readTagged(context: CallContext): Reading<boolean> {
    return (
      (yield* context.cursor.literal(style.functionOpen)) && (yield* readFunctionCall(context, style, isFunctionName))
    );
  }
  return {
    marks: [open, close],
    // These models sometimes omit the outer tag; the name then has to be that of a tool.
    read: (context) =>
      markedCalls(context, {
        [open]: closedBy(close, orHermes(readTagged)),
        [style.functionOpen]: closedBy(close, (inner) =>
          readFunctionCall(inner, style, (name) => inner.tools.has(name)),
        ),
      }),
    spell: (name) => ({
      prefix: `${open}\n${style.functionOpen}${name}${style.functionOpened}\n`,
      suffix: `${style.functionClose}\n${close}`,
      notation: parameterFields(style),
    }),
    several: inSeries("\n"),
  };
}

/** As above, with any number of functions inside one tag. */
export function invokeConvention(open: string, close: string, style: ParameterStyle): Convention {
  const { spell } = parameterConvention(open, close, style);
  return {
    marks: [open, close],
    read: (context) => markedCalls(context, { [open]: readInvocations(style, close) }),
    spell,
    several: { open: `${open}\n`, separator: "\n", close: `\n${close}` },
  };
}

/** A section of calls, each with marks around its name and its arguments. */
export function sectionConvention(
  marks: SectionMarks,
  readCall: Parameters<typeof sectionCalls>[1],
  spell: Convention["spell"],
  between?: string,
): Convention {
  const { sectionOpen, callOpen, separator, callClose, sectionClose } = marks;
  return {
    marks: [sectionOpen, callOpen, separator, callClose, sectionClose],
    read: (context) =>
      markedCalls(context, {
        [sectionOpen]: sectionCalls(marks, readCall),
        [callOpen]: sectionlessCall(marks, readCall),
      }),
    spell,
    ...(between === undefined ? {} : { several: { open: sectionOpen, separator: between, close: sectionClose } }),
  };
}
