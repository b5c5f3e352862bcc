// Turns the generated text of one choice into chat events as it comes: text, reasoning and tool calls.
// Invariants: a choice ends with its own last delta, whatever the other choices do; requested stop strings are matched
// against the visible text; a choice that may have one call ends with it; nothing of a choice is reported or counted after
// its end, however late it is read.

import type { ChatDelta, ChatParser } from "../chat/message.js";
import { StopStrings } from "../engine/stop-strings.js";
import type { ChatChoice, ChatEnding, ChatEvent, TextTokens } from "./chat-event.js";
import type { ChatStops } from "./chat-request.js";
import type { ChoiceSummary, CompletionDelta, DeltaPart, TokenLogprob } from "./completion-model.js";

/** The text of a token, control tokens included. */
type TokenText = (token: number) => string;

/** What reading a choice needs. */
interface ChoiceReaderOptions {
  readonly choice: number;
  readonly parser: ChatParser;
  readonly stops: Pick<ChatStops, "requested" | "inText">;
  readonly tokenText: TokenText;
  /** Whether the first call ends the choice. */
  readonly oneCall?: boolean;
  /** Whether the choice holds the log-probabilities of its tokens at the end. */
  readonly keepsLogprobs: boolean;
}

type Events = Generator<ChatEvent, void, undefined>;

/** Reads the deltas of one choice. */
export class ChoiceReader {
  readonly #options: ChoiceReaderOptions;
  /** Stop strings that are matched here, against the visible text. */
  readonly #visibleStops: readonly string[];
  #stops: StopStrings;
  /** Whether `#stops` has seen text since it was created. */
  #followsText = false;
  /** Of tokens whose text has not been reported yet. */
  #tokens: TokenLogprob[] = [];
  #generatedTokens = 0;
  #reasoningTokens = 0;
  /** Tokens whose text the parser holds back; they count as what it turns out to be. */
  #unclassifiedTokens = 0;
  #ending: ChatEnding | undefined;
  #visibleText = "";
  #reasoning = "";
  /** The tool calls so far, by index. */
  readonly #calls: { readonly id: string; readonly name: string; arguments: string }[] = [];
  readonly #textTokens: TextTokens[] = [];

  constructor(options: ChoiceReaderOptions) {
    this.#options = options;
    this.#visibleStops = options.stops.inText ? options.stops.requested : [];
    this.#stops = new StopStrings(this.#visibleStops);
  }

  /** How the choice ended; undefined while it is being generated. */
  get ending(): ChatEnding | undefined {
    return this.#ending;
  }

  /** Tokens generated up to the end of the choice. */
  get generatedTokens(): number {
    return this.#generatedTokens;
  }

  /** Those of them that were generated as reasoning. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** The choice as far as it was read; one without an end was aborted. */
  get result(): ChatChoice {
    return {
      ...(this.#ending ?? { reason: "abort", stop: undefined }),
      text: this.#visibleText,
      reasoning: this.#reasoning,
      toolCalls: this.#calls.filter((call) => call !== undefined),
      textTokens: this.#textTokens,
    };
  }

  /** The events that a delta brings. */
  *read(delta: CompletionDelta): Events {
    // Only a stop string, or the only call, ends a choice in the middle of a delta.
    const parts = delta.parts === undefined ? [delta] : partsOf(delta, delta.parts);
    if (this.#visibleStops.length === 0 && this.#options.oneCall !== true) yield* this.#readParts(parts);
    else for (const part of parts) if (this.#ending === undefined) yield* this.#readParts([part]);
    if (delta.finished !== undefined) yield* this.#finish(delta.finished);
  }

  /** Reports what was held back; nothing if the choice has ended already. */
  *#finish(summary: ChoiceSummary): Events {
    if (this.#ending !== undefined) return;
    const rest = this.#options.parser.end();
    const last = rest.at(-1);
    if (last !== undefined) this.#classifyTokens(last);
    yield* this.#report(rest);
    if (this.#ending !== undefined) return;
    yield* this.#text(this.#stops.flush());
    yield* this.#end(this.#endingOf(summary));
  }

  /** Reports parts that came together as one, but counts their tokens one by one. */
  *#readParts(parts: readonly GeneratedPart[]): Events {
    const deltas: ChatDelta[] = [];
    for (const { text, tokens, logprobs } of parts) {
      this.#generatedTokens += tokens.length;
      this.#unclassifiedTokens += tokens.length;
      for (const logprob of logprobs) this.#tokens.push(logprob);
      const parsed = text === "" ? [] : this.#options.parser.push(text);
      if (parsed.length > 0) this.#classifyTokens(parsed[parsed.length - 1]);
      for (const delta of parsed) appendDelta(deltas, delta);
    }
    yield* this.#report(deltas);
  }

  #classifyTokens({ kind }: ChatDelta): void {
    if (kind === "reasoning") this.#reasoningTokens += this.#unclassifiedTokens;
    this.#unclassifiedTokens = 0;
  }

  *#report(deltas: readonly ChatDelta[]): Events {
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
      yield* this.#nonText(delta);
      if (delta.kind !== "call-end" || this.#options.oneCall !== true) continue;
      yield* this.#end({ reason: "tool-calls", stop: undefined });
      return;
    }
  }

  *#nonText(delta: Exclude<ChatDelta, { kind: "text" }>): Events {
    const choice = this.#options.choice;
    switch (delta.kind) {
      case "reasoning":
        this.#reasoning += delta.text;
        yield { type: "reasoning", choice, text: delta.text };
        break;
      case "call": {
        const { index, id, name } = delta;
        this.#calls[index] = { id, name, arguments: "" };
        yield { type: "tool-call-start", choice, index, id, name };
        break;
      }
      case "arguments": {
        const { index, text } = delta;
        const call = this.#calls[index];
        if (call !== undefined) call.arguments += text;
        yield { type: "tool-call-delta", choice, index, text };
        break;
      }
      case "call-end": {
        const { index } = delta;
        const call = this.#calls[index];
        if (call !== undefined) yield { type: "tool-call", choice, index, ...call };
        break;
      }
      default:
        delta satisfies never;
    }
  }

  /** A stop string does not span a tool call. */
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
    yield this.#textEvent(text, this.#shown(text, tokens));
  }

  #textEvent(text: string, tokens: TextTokens): ChatEvent {
    this.#visibleText += text;
    if (this.#options.keepsLogprobs && tokens.tokens.length > 0) this.#textTokens.push(tokens);
    return { type: "text", choice: this.#options.choice, text, ...tokens };
  }

  /** Drops the log-probabilities of leading white space that was trimmed from the text. */
  #shown(text: string, tokens: readonly TokenLogprob[]): TextTokens {
    const all: TextTokens = { tokens, droppedBytes: 0 };
    const first = /^\s/.test(text) ? -1 : tokens.findIndex(({ token }) => this.#options.tokenText(token).trim() !== "");
    if (first === -1) return all;
    const whole = this.#options.tokenText(tokens[first].token);
    const shown = whole.trimStart();
    // Tokens of reasoning and tool calls, which the text does not begin with, are kept.
    if (!text.startsWith(shown) && !shown.startsWith(text)) return all;
    return { tokens: tokens.slice(first), droppedBytes: Buffer.byteLength(whole) - Buffer.byteLength(shown) };
  }

  *#end(ending: ChatEnding): Events {
    this.#ending = ending;
    if (this.#tokens.length > 0) yield this.#textEvent("", { tokens: this.#tokens, droppedBytes: 0 });
    this.#tokens = [];
    yield { type: "finish", choice: this.#options.choice, ending };
  }

  #endingOf({ reason, stop }: ChoiceSummary): ChatEnding {
    if (reason !== "stop") return { reason: reason === "length" ? "length" : "timeout", stop: undefined };
    // Stop strings of the model's own convention are not reported: the client did not request them.
    const known = stop !== undefined && this.#options.stops.requested.includes(stop) ? stop : undefined;
    return { reason: this.#calls.length > 0 && known === undefined ? "tool-calls" : "stop", stop: known };
  }
}

type GeneratedPart = Pick<CompletionDelta, "text" | "tokens" | "logprobs">;

/** What a delta was joined of because it was read late. */
function partsOf({ text, tokens, logprobs }: CompletionDelta, parts: readonly DeltaPart[]): readonly GeneratedPart[] {
  let [character, token] = [0, 0];
  return parts.map((part) => {
    const [textStart, tokenStart] = [character, token];
    character += part.characters;
    token += part.tokens;
    return {
      text: text.slice(textStart, character),
      tokens: tokens.slice(tokenStart, token),
      logprobs: logprobs.slice(tokenStart, token),
    };
  });
}

/** Joins a delta to the last one if both are text, reasoning, or arguments of the same call. */
function appendDelta(deltas: ChatDelta[], delta: ChatDelta): void {
  const last = deltas.at(-1);
  if (last === undefined || !("text" in last) || !("text" in delta) || last.kind !== delta.kind) deltas.push(delta);
  else deltas[deltas.length - 1] = { ...last, text: last.text + delta.text };
}
