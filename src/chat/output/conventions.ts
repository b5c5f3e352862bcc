// The conventions for tool calls of the model families, as data: the marks, the reader of replies, and the spelling of a
// call that is demanded. Formats are those of the families' published templates; docs/tool-calls.md names the sources.

import { CALL_CLOSE, CALL_OPEN, type CallContext } from "./call-context.js";
import type { AnswerForm } from "./call-form.js";
import {
  type Convention,
  inSeries,
  invokeConvention,
  jsonConvention,
  jsonSpelling,
  keyConvention,
  listConvention,
  parameterConvention,
  sectionConvention,
} from "./convention-makers.js";
import { HARMONY_CALL_END, HARMONY_MARKS, HARMONY_PREFIX, readHarmony } from "./harmony.js";
import { parseKeyedCall } from "./json-call.js";
import { listedCalls, readBareCalls, readFencedList } from "./json-calls.js";
import { LINE_PARAMETERS, NAMED_PARAMETERS, PLAIN_PARAMETERS, TYPED_PARAMETERS } from "./keyed-calls.js";
import { MAP_QUOTE, pythonCalls, readMapCall } from "./literal-calls.js";
import { closedBy, markedCalls, plainText } from "./marked-calls.js";
import { PART_MARKS, PART_PREFIX, readParts, readRecipients, RECIPIENT, RECIPIENT_PREFIX } from "./marked-replies.js";
import { readFunctionJson, readNamedCall } from "./named-calls.js";
import { ID_PREFIX, NUMBERED_MARKS, readNumberedCall, readSeparatedCall, SEPARATED_MARKS } from "./sectioned-calls.js";
import type { Reading } from "./text-cursor.js";

/** Mistral's marks. */
export const MISTRAL_CALLS = "[TOOL_CALLS]";
/** Stands between the name and the arguments in calls of newer Mistral models. */
export const MISTRAL_ARGUMENTS = "[ARGS]";
/** Stands between the name and the id in calls of Mistral Small 3.2. */
export const MISTRAL_CALL_ID = "[CALL_ID]";
/** Starts the tool calls of Llama 3. */
export const PYTHON_TAG = "<|python_tag|>";
const SEED = { open: "<seed:tool_call>", close: "</seed:tool_call>" } as const;
const MINIMAX = { open: "<minimax:tool_call>", close: "</minimax:tool_call>" } as const;
const DSML = "｜DSML｜";
const DSML_FUNCTIONS = { open: `<${DSML}function_calls>`, close: `</${DSML}function_calls>` } as const;
const DSML_TOOLS = { open: `<${DSML}tool_calls>`, close: `</${DSML}tool_calls>` } as const;
const LFM = { open: "<|tool_call_start|>", close: "<|tool_call_end|>" } as const;
const OLMO = { open: "<function_calls>", close: "</function_calls>" } as const;
const GEMMA = { open: "<|tool_call>", close: "<tool_call|>", result: "<|tool_response>" } as const;
const ACTION = { open: "<|START_ACTION|>", close: "<|END_ACTION|>" } as const;
const RESPONSE = { prefix: "<|START_RESPONSE|>", suffix: "<|END_RESPONSE|>" } as const;
const RESPONSE_TEXT = { prefix: "<|START_TEXT|>", suffix: "<|END_TEXT|>" } as const;
const APERTUS = { open: "<|tools_prefix|>", close: "<|tools_suffix|>" } as const;

const SEPARATED_OPEN = SEPARATED_MARKS.sectionOpen + SEPARATED_MARKS.callOpen;
const SEPARATED_CLOSE = SEPARATED_MARKS.callClose + SEPARATED_MARKS.sectionClose;

/** The marks of Llama 4 around Python code; calls are behind them, or in them. */
const PYTHON_SPAN = ["<|python_start|>", "<|python_end|>"] as const;
const GIGACHAT = "<|function_call|>";

function actionConvention(answer: AnswerForm): Convention {
  return {
    marks: [ACTION.open, ACTION.close, answer.prefix, answer.suffix],
    read: (context) => markedCalls(context, { [ACTION.open]: listedCalls({ close: ACTION.close }) }),
    // The templates number the calls of a chat.
    spell: (name, callsBefore) => ({
      prefix: `${ACTION.open}[\n    {"tool_call_id": "${callsBefore}", "tool_name": ${JSON.stringify(name)}, "parameters": `,
      suffix: `}\n]${ACTION.close}`,
    }),
    answer,
    answerMarks: [answer.prefix, answer.suffix],
  };
}

/** The conventions by name. */
export const CONVENTIONS = {
  /** Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3, ERNIE 4.5. */
  "tagged-json": jsonConvention("\n"),
  /** EXAONE 4. */
  "joined-json": jsonConvention(""),
  /** GLM 4.5 and 4.6. */
  "tagged-keys": keyConvention("\n"),
  /** GLM 4.7. */
  "joined-keys": keyConvention(""),
  /** Qwen3-Coder, Qwen3.5, Nemotron 3, Step 3.5. */
  "tagged-parameters": parameterConvention(CALL_OPEN, CALL_CLOSE, LINE_PARAMETERS),
  /** Seed-OSS. */
  "seed-parameters": parameterConvention(SEED.open, SEED.close, PLAIN_PARAMETERS),
  /** MiniMax M2. */
  "named-parameters": invokeConvention(MINIMAX.open, MINIMAX.close, NAMED_PARAMETERS),
  /** DeepSeek V3.2. */
  "typed-parameters": {
    ...invokeConvention(DSML_FUNCTIONS.open, DSML_FUNCTIONS.close, TYPED_PARAMETERS),
    marks: [DSML],
  },
  /** DeepSeek V4. */
  "typed-calls": { ...invokeConvention(DSML_TOOLS.open, DSML_TOOLS.close, TYPED_PARAMETERS), marks: [DSML] },
  /** Mistral before 2025: a list of calls. */
  bracketed: {
    marks: [MISTRAL_CALLS, MISTRAL_ARGUMENTS, MISTRAL_CALL_ID],
    read: readMistral,
    spell: jsonSpelling(`${MISTRAL_CALLS}[`, "]"),
    several: { open: `${MISTRAL_CALLS}[`, separator: ", ", close: "]" },
    ids: "nine characters",
  },
  /** Ministral 3, Devstral, Magistral. */
  "bracketed-arguments": {
    marks: [MISTRAL_CALLS, MISTRAL_ARGUMENTS, MISTRAL_CALL_ID],
    read: readMistral,
    spell: (name) => ({ prefix: `${MISTRAL_CALLS}${name}${MISTRAL_ARGUMENTS}`, suffix: "" }),
    several: inSeries(""),
    ids: "nine characters",
  },
  /** Mistral Small 3.2. */
  "bracketed-ids": {
    marks: [MISTRAL_CALLS, MISTRAL_ARGUMENTS, MISTRAL_CALL_ID],
    read: readMistral,
    spell: (name, callsBefore) => {
      const id = String(callsBefore).padStart(9, "0");
      return { prefix: `${MISTRAL_CALLS}${name}${MISTRAL_CALL_ID}${id}${MISTRAL_ARGUMENTS}`, suffix: "", id };
    },
    ids: "nine characters",
  },
  /** DeepSeek V3.1. */
  "separated-json": sectionConvention(
    SEPARATED_MARKS,
    readSeparatedCall,
    (name) => ({ prefix: `${SEPARATED_OPEN}${name}${SEPARATED_MARKS.separator}`, suffix: SEPARATED_CLOSE }),
    "",
  ),
  /** DeepSeek V3 and R1. */
  "separated-fence": sectionConvention(
    SEPARATED_MARKS,
    readSeparatedCall,
    (name) => ({
      prefix: `${SEPARATED_OPEN}function${SEPARATED_MARKS.separator}${name}\n\`\`\`json\n`,
      suffix: `\n\`\`\`${SEPARATED_CLOSE}`,
    }),
    "\n",
  ),
  /** Kimi K2. */
  "numbered-json": {
    ...sectionConvention(NUMBERED_MARKS, readNumberedCall, (name, callsBefore) => {
      const id = `${ID_PREFIX}${name}:${callsBefore}`;
      return {
        prefix: `${NUMBERED_MARKS.sectionOpen}${NUMBERED_MARKS.callOpen}${id}${NUMBERED_MARKS.separator}`,
        suffix: NUMBERED_MARKS.callClose + NUMBERED_MARKS.sectionClose,
        id,
      };
    }),
    endsReasoning: [NUMBERED_MARKS.sectionOpen],
    ids: "numbered",
  },
  /** The gpt-oss models. */
  harmony: {
    marks: HARMONY_MARKS,
    read: readHarmony,
    marksReply: true,
    spell: (name) => ({ prefix: HARMONY_PREFIX.call(name), suffix: HARMONY_CALL_END }),
    thought: { open: HARMONY_PREFIX.thought, close: HARMONY_PREFIX.next },
    answer: { prefix: HARMONY_PREFIX.answer, suffix: "" },
  },
  /** Solar Open. */
  "marked-parts": {
    marks: PART_MARKS,
    read: readParts,
    marksReply: true,
    spell: (name, callsBefore) => {
      const id = `call${String(callsBefore).padStart(6, "0")}`;
      return { prefix: PART_PREFIX.call(name, id), suffix: PART_PREFIX.callEnd, id };
    },
    thought: { open: PART_PREFIX.thought, close: PART_PREFIX.next },
    answer: { prefix: PART_PREFIX.answer, suffix: "" },
  },
  /** Gemma 4. */
  "quoted-map": {
    marks: [GEMMA.open, GEMMA.close, GEMMA.result, MAP_QUOTE],
    read: (context) => markedCalls(context, { [GEMMA.open]: closedBy(GEMMA.close, readMapCall) }),
    spell: (name) => ({
      prefix: `${GEMMA.open}call:${name}`,
      suffix: GEMMA.close,
      notation: { kind: "map", quote: MAP_QUOTE },
    }),
    several: inSeries(""),
    stops: [GEMMA.result],
  },
  /** LFM2. */
  "python-calls": {
    marks: [LFM.open, LFM.close],
    read: (context) => markedCalls(context, { [LFM.open]: pythonCalls(LFM.close) }),
    spell: (name) => ({ prefix: `${LFM.open}[${name}(`, suffix: `)]${LFM.close}`, notation: { kind: "python" } }),
    several: { open: `${LFM.open}[`, separator: ", ", close: `]${LFM.close}` },
  },
  /** OLMo 3. */
  "python-lines": {
    marks: [OLMO.open, OLMO.close],
    read: (context) => markedCalls(context, { [OLMO.open]: pythonCalls(OLMO.close) }),
    spell: (name) => ({
      prefix: `${OLMO.open}${name}(`,
      suffix: `)${OLMO.close}`,
      notation: { kind: "python", words: "json" },
    }),
    several: { ...OLMO, separator: "\n" },
  },
  /** Granite 3. */
  "open-list": listConvention("<|tool_call|>", undefined),
  /** Phi-4 mini. */
  "closed-list": listConvention("<|tool_call|>", "<|/tool_call|>"),
  /** Nemotron Nano v2 and Llama-Nemotron. */
  "capital-list": listConvention("<TOOLCALL>", "</TOOLCALL>"),
  /** Apriel, Hunyuan A13B. */
  "tagged-list": listConvention("<tool_calls>", "</tool_calls>"),
  /** MiniMax M1. */
  "tagged-lines": {
    marks: ["<tool_calls>", "</tool_calls>"],
    read: (context) => markedCalls(context, { "<tool_calls>": listedCalls({ close: "</tool_calls>" }) }),
    spell: jsonSpelling("<tool_calls>\n", "\n</tool_calls>"),
    several: { open: "<tool_calls>\n", separator: "\n", close: "\n</tool_calls>" },
  },
  /** Apertus. Its template shows results directly behind the calls. */
  "keyed-list": {
    marks: [APERTUS.open, APERTUS.close],
    read: (context) =>
      markedCalls(context, { [APERTUS.open]: listedCalls({ close: APERTUS.close, parse: parseKeyedCall }) }),
    spell: (name) => ({ prefix: `${APERTUS.open}[{${JSON.stringify(name)}: `, suffix: `}]${APERTUS.close}` }),
    several: { open: `${APERTUS.open}[`, separator: ", ", close: `]${APERTUS.close}` },
    stops: [APERTUS.close],
    endsReasoning: [APERTUS.open],
  },
  /** Command R7B and Command A. */
  "action-list": actionConvention(RESPONSE),
  /** Command A Reasoning and later. */
  "action-text": actionConvention(RESPONSE_TEXT),
  /** Command R and R+. */
  "action-fence": {
    marks: [],
    read: (context) => markedCalls(context, { "Action:": readFencedList }),
    spell: (name) => ({
      prefix: `Action: \`\`\`json\n[\n    {\n        "tool_name": ${JSON.stringify(name)},\n        "parameters": `,
      suffix: "\n    }\n]```",
    }),
    several: { open: "Action: ```json\n[\n", separator: ",\n", close: "\n]```" },
  },
  /** Functionary 3.2. */
  recipients: {
    marks: [],
    read: readRecipients,
    marksReply: true,
    spell: (name) => ({ prefix: RECIPIENT_PREFIX.call(name), suffix: "" }),
    several: inSeries(RECIPIENT),
    answer: { prefix: RECIPIENT_PREFIX.answer, suffix: "" },
  },
  /** Functionary 3.1, and Llama 3.1's custom functions. */
  "function-json": {
    marks: [PYTHON_TAG],
    read: (context) => markedCalls(context, { "<function=": readFunctionJson, [PYTHON_TAG]: readBareCalls }),
    spell: (name) => ({ prefix: `<function=${name}>`, suffix: "</function>" }),
  },
  /** Llama 3. */
  "python-tag": {
    marks: [PYTHON_TAG],
    *read(context) {
      yield* readBareCalls(context);
      yield* markedCalls(context, { [PYTHON_TAG]: readBareCalls });
    },
    spell: jsonSpelling("", "", "parameters"),
  },
  /** Llama 4. */
  "python-span": {
    marks: PYTHON_SPAN,
    *read(context) {
      yield* readBareCalls(context);
      yield* markedCalls(context, Object.fromEntries(PYTHON_SPAN.map((mark) => [mark, readBareCalls])));
    },
    spell: jsonSpelling("", "", "parameters"),
  },
  /** GigaChat 3.1. */
  "marked-json": {
    marks: [GIGACHAT],
    read: (context) => markedCalls(context, { [GIGACHAT]: listedCalls({}) }),
    spell: jsonSpelling(GIGACHAT, ""),
  },
  /** Any model: JSON without marks. */
  "bare-json": {
    marks: [],
    *read(context) {
      yield* readBareCalls(context);
      yield* plainText(context);
    },
    spell: jsonSpelling("", ""),
  },
} as const satisfies Readonly<Record<string, Convention>>;

/** The names of the conventions; most are named after the look of a call. */
export type CallConvention = keyof typeof CONVENTIONS;

/** A convention by name. */
export function conventionOf(name: CallConvention): Convention {
  return CONVENTIONS[name];
}

/** Reads `[{"name": …}, …]`, or `name[ARGS]{…}` of newer models. */
function readMistral(context: CallContext): Reading<void> {
  const marks = { argumentsOpen: MISTRAL_ARGUMENTS, callId: MISTRAL_CALL_ID };
  return markedCalls(context, {
    [MISTRAL_CALLS]: listedCalls({ other: (inner) => readNamedCall(inner, marks) }),
  });
}
