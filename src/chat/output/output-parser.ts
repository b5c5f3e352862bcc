// Takes a model's answer as it comes, cut anywhere, and says what each piece is: text, reasoning, tool calls. Invariants:
// joined, the deltas are the same however the text was cut; nothing is lost but the marks themselves and white space
// around calls and reasoning; what is held back is bounded by the call that is being read.

import { randomBytes } from "node:crypto";
import type { CallContext } from "./call-context.js";
import { CALL_SYNTAX, type CallConvention, plainText } from "./call-syntax.js";
import { DeltaSink } from "./delta-sink.js";
import type { ChatDelta, ChatTool } from "../message.js";
import { Markers, type Reading, TextCursor } from "./text-cursor.js";
import { readForcedCall, type ToolCallForm } from "./tool-constraint.js";

/** What stands around a model's thoughts. */
export interface ReasoningMarks {
  readonly open: string;
  readonly close: string;
}

export interface ChatOutputParserOptions {
  readonly convention: CallConvention;
  /** With none of them, nothing is a call. */
  readonly tools: readonly ChatTool[];
  /** undefined: the model does not think aloud. */
  readonly reasoning: ReasoningMarks | undefined;
  /** The prompt has opened the reasoning block already. */
  readonly reasoningOpen: boolean;
  /** Drops white space in front of the answer. */
  readonly trimsStart?: boolean;
  /** Stop strings that are looked for in the text of the answer: none of that is held back where it completes one. */
  readonly stops?: readonly string[];
  /** What decoding was held to, where it was. */
  readonly forms?: readonly ToolCallForm[];
  readonly makeId?: () => string;
}

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
      // A constrained answer is one of these calls or the formatted text itself, whose strings may mention calls.
      yield* readForcedCall(context, forms);
      return yield* plainText(context);
    }
    if (reasoning !== undefined) yield* this.#readReasoning(reasoning, reasoningOpen);
    if (!this.#inReasoning) yield* tools.length === 0 ? plainText(context) : CALL_SYNTAX[convention](context);
  }

  /** Only in front of the answer: further on, the marks are what the answer is about. */
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

/** Mistral's templates take ids of nine letters and digits only. */
function shortId(): string {
  return randomBytes(8).toString("hex").slice(0, 9);
}
