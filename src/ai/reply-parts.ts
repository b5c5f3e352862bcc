// The events of a reply as parts of the SDK's stream. Invariants: one block is open at a time; every block that starts ends,
// also if the reply is cut off; a tool call is given as a whole only if it is complete.

import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ReplyEvent } from "../model/chat.js";

type StreamParts = Generator<LanguageModelV4StreamPart, void, undefined>;
type BlockKind = "text" | "reasoning" | "tool-input";

/** Turns events into parts, one reply for each instance. */
export class ReplyParts {
  #open: { readonly kind: BlockKind; readonly id: string } | undefined;
  #blocks = 0;

  /** The parts that an event brings. */
  *read(event: ReplyEvent): StreamParts {
    switch (event.type) {
      case "text":
      case "reasoning":
        yield* this.#delta(event.type, event.text);
        break;
      case "tool-call-start":
        yield* this.close();
        this.#open = { kind: "tool-input", id: event.id };
        yield { type: "tool-input-start", id: event.id, toolName: event.name };
        break;
      case "tool-call-delta":
        yield { type: "tool-input-delta", id: event.id, delta: event.text };
        break;
      case "tool-call":
        yield* this.close();
        yield { type: "tool-call", toolCallId: event.id, toolName: event.name, input: event.arguments };
        break;
      default:
        event satisfies never;
    }
  }

  /** Ends the block that is open, if one is. */
  *close(): StreamParts {
    if (this.#open === undefined) return;
    const { kind, id } = this.#open;
    this.#open = undefined;
    yield { type: `${kind}-end`, id };
  }

  *#delta(kind: "text" | "reasoning", delta: string): StreamParts {
    if (this.#open?.kind !== kind) {
      yield* this.close();
      const id = `${kind}-${this.#blocks++}`;
      this.#open = { kind, id };
      yield { type: `${kind}-start`, id };
    }
    yield { type: `${kind}-delta`, id: this.#open?.id ?? "", delta };
  }
}
