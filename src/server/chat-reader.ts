// What a model writes in a chat, told apart into answer, thoughts and tool calls, choice by choice as it comes.
// Invariants: a choice ends with its own last piece, whatever the others do; the client's stop strings are looked for in
// the text that the client sees, and nothing of a choice is told after its end.

import type { ChatDelta } from "../chat/message.js";
import type { ChoiceSummary, CompletionPiece, TokenLogprob } from "../engine/serving.js";
import { StopStrings } from "../engine/stop-strings.js";
import type { ChatParser } from "./services.js";

/** `tokens` are those since the choice's last text, where log-probabilities were asked for. */
export type ChatEvent =
  | { readonly kind: "text"; readonly choice: number; readonly text: string; readonly tokens: readonly TokenLogprob[] }
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

type Events = Generator<ChatEvent, void, undefined>;

export class ChoiceReader {
  readonly #choice: number;
  readonly #parser: ChatParser;
  readonly #asked: readonly string[];
  readonly #visibleStops: readonly string[];
  #stops: StopStrings;
  /** Of tokens whose text has not been told. */
  #tokens: TokenLogprob[] = [];
  #calls = false;
  #ending: ChatEnding | undefined;
  #generatedTokens = 0;

  constructor(choice: number, parser: ChatParser, { asked, inText }: ChoiceStops) {
    this.#choice = choice;
    this.#parser = parser;
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

  *read({ text, tokens, logprobs, finished }: CompletionPiece): Events {
    this.#generatedTokens += tokens.length;
    for (const logprob of logprobs) this.#tokens.push(logprob);
    if (text !== "") yield* this.#tell(this.#parser.push(text));
    if (finished !== undefined) yield* this.finish(finished);
  }

  /** What was held back is told; a choice that has ended has nothing more to tell. */
  *finish(summary: ChoiceSummary): Events {
    if (this.#ending !== undefined) return;
    yield* this.#tell(this.#parser.end());
    if (this.#ending !== undefined) return;
    yield* this.#text(this.#stops.flush());
    yield* this.#end(this.#endingOf(summary));
  }

  *#tell(deltas: readonly ChatDelta[]): Events {
    for (const delta of deltas) {
      if (delta.kind === "text") {
        const { text, stopped, stop } = this.#stops.push(delta.text);
        yield* this.#text(text);
        if (!stopped) continue;
        yield* this.#end({ reason: "stop", stop });
        return;
      }
      // A stop string does not reach over a call.
      yield* this.#text(this.#stops.flush());
      this.#stops = new StopStrings(this.#visibleStops);
      if (delta.kind === "call") this.#calls = true;
      yield { ...delta, choice: this.#choice };
    }
  }

  *#text(text: string): Events {
    if (text === "") return;
    const tokens = this.#tokens;
    this.#tokens = [];
    yield { kind: "text", choice: this.#choice, text, tokens };
  }

  *#end(ending: ChatEnding): Events {
    this.#ending = ending;
    if (this.#tokens.length > 0) yield { kind: "text", choice: this.#choice, text: "", tokens: this.#tokens };
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
