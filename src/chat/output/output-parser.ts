// Parses the generated text of one choice as it comes, cut anywhere, into text, reasoning and tool calls. Invariants:
// joined, the deltas do not depend on the cuts; nothing is lost except marks, and white space around calls and
// reasoning; the text that is held back is bounded by the call that is being read.

import { randomBytes } from "node:crypto";
import type { CallContext } from "./call-context.js";
import { CALL_SYNTAX, type CallConvention, plainText } from "./call-syntax.js";
import { DeltaSink } from "./delta-sink.js";
import type { ChatDelta, ChatTool } from "../message.js";
import { Markers, type Reading, TextCursor } from "./text-cursor.js";
import { readForcedCall, type ToolCallForm } from "./tool-constraint.js";

/** The marks around a model's reasoning. */
export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
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
  /** The forms that decoding was constrained to, if it was. */
  readonly forms?: readonly ToolCallForm[];
  readonly makeId?: () => string;
}

/** Parses the generated text of one choice. */
export class ChatOutputParser {
  readonly #cursor = new TextCursor();
  readonly #sink: DeltaSink;
  readonly #reading: Reading<void>;
  #inReasoning = false;

  constructor(options: ChatOutputParserOptions) {
    const { tools, convention } = options;
    this.#sink = new DeltaSink({
      holdsSpace: tools.length > 0,
      trimsStart: options.trimsStart ?? false,
      stops: options.stops ?? [],
      makeId: options.makeId ?? (convention === "bracketed" ? shortId : longId),
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
    this.#sink.end(this.#inReasoning ? "reasoning" : "text");
    return this.#sink.take();
  }

  *#read({ tools, convention, reasoning, reasoningOpen, forms = [] }: ChatOutputParserOptions): Reading<void> {
    const context: CallContext = {
      cursor: this.#cursor,
      sink: this.#sink,
      tools: new Map(tools.map((tool) => [tool.name, tool])),
    };
    if (forms.length > 0) {
      // A constrained reply is one of these calls or the formatted text itself, whose strings may mention calls.
      yield* readForcedCall(context, forms);
      return yield* plainText(context);
    }
    if (reasoning !== undefined) yield* this.#readReasoning(reasoning, reasoningOpen);
    if (!this.#inReasoning) yield* tools.length === 0 ? plainText(context) : CALL_SYNTAX[convention](context);
  }

  /** Only at the start of the reply: later on, the marks are part of its text. */
  *#readReasoning({ open, close }: ReasoningMarks, isOpen: boolean): Reading<void> {
    if (!isOpen) {
      this.#cursor.startRecord();
      yield* this.#cursor.space();
      const found = yield* this.#cursor.literal(open);
      const before = this.#cursor.takeRecord();
      if (!found) return this.#sink.text(before);
    }
    this.#inReasoning = true;
    this.#sink.turn();
    if ((yield* this.#cursor.until(new Markers([close]), (text) => this.#sink.reasoning(text))) === undefined) return;
    this.#inReasoning = false;
    this.#sink.turn();
  }
}

function longId(): string {
  return `call_${randomBytes(12).toString("hex")}`;
}

/** Nine letters and digits, the only ids that Mistral's templates take. */
function shortId(): string {
  return randomBytes(8).toString("hex").slice(0, 9);
}
