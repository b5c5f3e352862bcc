// Parses the generated text of one choice as it comes, cut anywhere, into text, reasoning and tool calls. Invariants:
// joined, the deltas do not depend on the cuts; nothing is lost except marks, and white space around calls and
// reasoning; the text that is held back is bounded by the call that is being read.

import { randomBytes } from "node:crypto";
import type { CallContext } from "./call-context.js";
import type { AnswerForm, CallSeries, ToolCallForm } from "./call-form.js";
import { type CallConvention, conventionOf } from "./conventions.js";
import { DeltaSink } from "./delta-sink.js";
import { plainText } from "./marked-calls.js";
import type { ChatDelta, ChatTool } from "../message.js";
import { Markers, type Reading, TextCursor } from "./text-cursor.js";
import { readForcedCalls } from "./tool-constraint.js";

/** The marks around a model's reasoning. */
export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
  /** A word behind the opening mark, which is no part of the reasoning. */
  readonly label?: string;
  /** What closes a block that the prompt has opened; the closing mark between empty lines by default. */
  readonly closing?: string;
}

/** The model's convention, and what is expected of the reply. */
export interface ChatOutputParserOptions {
  readonly convention: CallConvention;
  /** Tools that may be called; if empty, nothing is a call. */
  readonly tools: readonly ChatTool[];
  /** Undefined if the model does not reason. */
  readonly reasoning: ReasoningMarks | undefined;
  /** Whether the prompt ends inside a reasoning block. */
  readonly reasoningOpen: boolean;
  /** Whether white space at the start of the reply is dropped. */
  readonly trimsStart?: boolean;
  /** Stop strings that are matched against the text; text that completes one is not held back. */
  readonly stops?: readonly string[];
  /** Marks around the answer, which are no part of its text. */
  readonly answerMarks?: readonly string[];
  /** The forms that decoding was constrained to, if it was. */
  readonly forms?: readonly ToolCallForm[];
  /** How several calls in the forms follow one another, if decoding allowed that. */
  readonly series?: CallSeries | undefined;
  /** Whether decoding was constrained, so that the reply is a call in one of the forms, or nothing but the answer. */
  readonly constrained?: boolean;
  /** What stands around the answer if decoding was constrained to that or one of the forms. */
  readonly answer?: AnswerForm | undefined;
  readonly makeId?: () => string;
}

/** Parses the generated text of one choice. */
export class ChatOutputParser {
  readonly #cursor = new TextCursor();
  readonly #sink: DeltaSink;
  readonly #reading: Reading<void>;
  #inReasoning = false;
  /** Whether there was reasoning, so that white space follows that belongs to nothing. */
  #isThought = false;

  constructor(options: ChatOutputParserOptions) {
    const { tools, convention } = options;
    this.#sink = new DeltaSink({
      holdsSpace: tools.length > 0,
      trimsStart: options.trimsStart ?? false,
      stops: options.stops ?? [],
      makeId: options.makeId ?? (conventionOf(convention).ids === "nine characters" ? shortId : longId),
    });
    this.#reading = this.#read(options);
    this.#reading.next();
  }

  push(text: string): readonly ChatDelta[] {
    if (text === "") return [];
    this.#cursor.push(text);
    this.#reading.next();
    return this.#sink.take();
  }

  end(): readonly ChatDelta[] {
    this.#cursor.end();
    this.#reading.next();
    this.#sink.end();
    return this.#sink.take();
  }

  *#read(options: ChatOutputParserOptions): Reading<void> {
    const { tools, convention, reasoning, reasoningOpen, answerMarks = [], forms = [] } = options;
    const context: CallContext = {
      cursor: this.#cursor,
      sink: this.#sink,
      tools: new Map(tools.map((tool) => [tool.name, tool])),
      answerMarks,
    };
    const constrained = options.constrained === true || forms.length > 0;
    const { read, marksReply = false, endsReasoning = [] } = conventionOf(convention);
    if (reasoning !== undefined)
      yield* this.#readReasoning(reasoning, reasoningOpen, tools.length === 0 || constrained ? [] : endsReasoning);
    if (this.#inReasoning) return;
    if (constrained) yield* this.#readConstrained(context, options);
    else yield* tools.length > 0 || marksReply ? read(context) : plainText(context);
  }

  /** A constrained reply is calls in these forms or the formatted text itself, whose strings may mention calls. */
  *#readConstrained(
    context: CallContext,
    { forms = [], series, answer }: Pick<ChatOutputParserOptions, "forms" | "series" | "answer">,
  ): Reading<void> {
    if (this.#isThought) yield* this.#cursor.space();
    const isCall = yield* readForcedCalls(context, forms, series);
    if (!isCall && answer !== undefined) yield* this.#cursor.literal(answer.prefix);
    const suffix = isCall ? "" : (answer?.suffix ?? "");
    yield* plainText({ ...context, answerMarks: suffix === "" ? [] : [suffix] });
  }

  /** Only at the start of the reply: later on, the marks are part of its text. */
  *#readReasoning(
    { open, close, label = "" }: ReasoningMarks,
    isOpen: boolean,
    ends: readonly string[],
  ): Reading<void> {
    if (!isOpen) {
      this.#cursor.startRecord();
      yield* this.#cursor.space();
      const found = yield* this.#cursor.literal(open);
      const before = this.#cursor.takeRecord();
      if (!found) return this.#sink.text(before);
      yield* this.#cursor.literal(label);
    }
    this.#inReasoning = true;
    this.#sink.turn();
    const end = yield* this.#cursor.until(new Markers([close, ...ends]), (text) => this.#sink.reasoning(text));
    if (end === undefined) return;
    if (end !== close) this.#cursor.unread(end);
    this.#inReasoning = false;
    this.#sink.turn();
    this.#isThought = true;
  }
}

function longId(): string {
  return `call_${randomBytes(12).toString("hex")}`;
}

/** Nine letters and digits, the only ids that Mistral's templates take. */
function shortId(): string {
  return randomBytes(8).toString("hex").slice(0, 9);
}
