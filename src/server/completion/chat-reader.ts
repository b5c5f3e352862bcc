// What a model writes in a chat, told apart into answer, thoughts and tool calls, choice by choice as it comes.
// Invariants: a choice ends with its own last piece, whatever the others do; the client's stop strings are looked for in
// the text that the client sees, and nothing of a choice is told or counted after its end, however late it is read.

import type { ChatDelta } from "../../chat/message.js";
import type { ChoiceSummary, CompletionPiece, PiecePart, TokenLogprob } from "../../engine/serving.js";
import { StopStrings } from "../../engine/stop-strings.js";
import type { ChatParser } from "./services.js";

/** The tokens since the choice's last text, if log-probabilities were requested. */
export interface TextTokens {
  readonly tokens: readonly TokenLogprob[];
  /** Leading white space of the first token that the text does not contain. */
  readonly droppedBytes: number;
}

export type ChatEvent =
  | ({ readonly kind: "text"; readonly choice: number; readonly text: string } & TextTokens)
  | (Exclude<ChatDelta, { kind: "text" }> & { readonly choice: number })
  | { readonly kind: "end"; readonly choice: number; readonly ending: ChatEnding };

export interface ChatEnding {
  readonly reason: "stop" | "length" | "tool-calls";
  /** The stop string that ended it. */
  readonly stop: string | undefined;
}

export interface ChoiceStops {
  /** The client's. */
  readonly asked: readonly string[];
  /** They are looked for here, and not by the engine. */
  readonly inText: boolean;
}

export type TokenText = (token: number) => string;

type Events = Generator<ChatEvent, void, undefined>;

export class ChoiceReader {
  readonly #choice: number;
  readonly #parser: ChatParser;
  readonly #asked: readonly string[];
  readonly #visibleStops: readonly string[];
  readonly #tokenText: TokenText;
  #stops: StopStrings;
  /** They have seen text since they were made. */
  #followsText = false;
  /** Of tokens whose text has not been told. */
  #tokens: TokenLogprob[] = [];
  #calls = false;
  #ending: ChatEnding | undefined;
  #generatedTokens = 0;

  constructor(choice: number, parser: ChatParser, { asked, inText }: ChoiceStops, tokenText: TokenText) {
    this.#choice = choice;
    this.#parser = parser;
    this.#tokenText = tokenText;
    this.#asked = asked;
    this.#visibleStops = inText ? asked : [];
    this.#stops = new StopStrings(this.#visibleStops);
  }

  /** Undefined while there is more to come. */
  get ending(): ChatEnding | undefined {
    return this.#ending;
  }

  /** Up to its end. */
  get generatedTokens(): number {
    return this.#generatedTokens;
  }

  *read(piece: CompletionPiece): Events {
    // Only a stop string ends it in the middle of a piece.
    if (piece.parts === undefined || this.#visibleStops.length === 0) yield* this.#readPart(piece);
    else yield* this.#readParts(piece, piece.parts);
    if (piece.finished !== undefined) yield* this.finish(piece.finished);
  }

  /** What was held back is told; a choice that has ended has nothing more to tell. */
  *finish(summary: ChoiceSummary): Events {
    if (this.#ending !== undefined) return;
    yield* this.#tell(this.#parser.end());
    if (this.#ending !== undefined) return;
    yield* this.#text(this.#stops.flush());
    yield* this.#end(this.#endingOf(summary));
  }

  *#readParts({ text, tokens, logprobs }: CompletionPiece, parts: readonly PiecePart[]): Events {
    let [character, token] = [0, 0];
    for (const part of parts) {
      if (this.#ending !== undefined) return;
      const [textEnd, tokenEnd] = [character + part.characters, token + part.tokens];
      yield* this.#readPart({
        text: text.slice(character, textEnd),
        tokens: tokens.slice(token, tokenEnd),
        logprobs: logprobs.slice(token, tokenEnd),
      });
      [character, token] = [textEnd, tokenEnd];
    }
  }

  *#readPart({ text, tokens, logprobs }: Pick<CompletionPiece, "text" | "tokens" | "logprobs">): Events {
    this.#generatedTokens += tokens.length;
    for (const logprob of logprobs) this.#tokens.push(logprob);
    if (text !== "") yield* this.#tell(this.#parser.push(text));
  }

  *#tell(deltas: readonly ChatDelta[]): Events {
    for (const delta of deltas) {
      if (delta.kind === "text") {
        this.#followsText = true;
        const { text, stopped, stop } = this.#stops.push(delta.text);
        yield* this.#text(text);
        if (!stopped) continue;
        yield* this.#end({ reason: "stop", stop });
        return;
      }
      yield* this.#leaveText();
      if (delta.kind === "call") this.#calls = true;
      yield { ...delta, choice: this.#choice };
    }
  }

  /** A stop string does not reach over a call. */
  *#leaveText(): Events {
    if (!this.#followsText || this.#visibleStops.length === 0) return;
    yield* this.#text(this.#stops.flush());
    this.#stops = new StopStrings(this.#visibleStops);
    this.#followsText = false;
  }

  *#text(text: string): Events {
    if (text === "") return;
    const tokens = this.#tokens;
    this.#tokens = [];
    yield { kind: "text", choice: this.#choice, text, ...this.#shown(text, tokens) };
  }

  /** Drops the log-probabilities of leading white space that was trimmed from the text. */
  #shown(text: string, tokens: readonly TokenLogprob[]): TextTokens {
    const all: TextTokens = { tokens, droppedBytes: 0 };
    const first = /^\s/.test(text) ? -1 : tokens.findIndex(({ token }) => this.#tokenText(token).trim() !== "");
    if (first === -1) return all;
    const whole = this.#tokenText(tokens[first].token);
    const shown = whole.trimStart();
    // Tokens of reasoning and tool calls, which the text does not begin with, are kept.
    if (!text.startsWith(shown) && !shown.startsWith(text)) return all;
    return { tokens: tokens.slice(first), droppedBytes: Buffer.byteLength(whole) - Buffer.byteLength(shown) };
  }

  *#end(ending: ChatEnding): Events {
    this.#ending = ending;
    if (this.#tokens.length > 0)
      yield { kind: "text", choice: this.#choice, text: "", tokens: this.#tokens, droppedBytes: 0 };
    this.#tokens = [];
    yield { kind: "end", choice: this.#choice, ending };
  }

  #endingOf({ reason, stop }: ChoiceSummary): ChatEnding {
    if (reason !== "stop") return { reason: "length", stop: undefined };
    // The model's own convention ends an answer too, which is no stop string of the client's.
    const known = stop !== undefined && this.#asked.includes(stop) ? stop : undefined;
    return { reason: this.#calls && known === undefined ? "tool-calls" : "stop", stop: known };
  }
}
