// A conversation with a model that thinks before it replies, through HTTP. It keeps account of what the server has
// computed before, so that each turn knows how many of its tokens are new.

import { renderThinking, type ThinkingMarks, type ThinkingMessage } from "../../support/thinking-template.js";

/** The model and how its texts become tokens. */
export interface ConversationOptions {
  readonly url: string;
  readonly model: string;
  readonly marks: ThinkingMarks;
  readonly keepsThoughts: boolean;
  /** How many tokens each answer has; all of them are a thought, because the model never ends one. */
  readonly answerTokens: number;
  /** Tokens that answers are made of: no merge joins them, so that an answer in the history has the tokens it was written in. */
  readonly letters: readonly number[];
  encode(text: string): ArrayLike<unknown>;
}

export interface Turn {
  readonly promptTokens: number;
  /** Tokens behind the longest prefix that the prompt shares with anything that was computed before. */
  readonly newTokens: number;
  /** Prompt tokens that the server computed. */
  readonly computedTokens: number;
}

const BIAS = 100;

/** One conversation, and what was computed of it. */
export class Conversation {
  readonly #options: ConversationOptions;
  readonly messages: ThinkingMessage[] = [];
  /** Prompts and answers, as far as they were computed. */
  readonly #computed: (readonly unknown[])[] = [];

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Sends a message and takes the reply into the history. */
  async say(content: string): Promise<Turn> {
    this.messages.push({ role: "user", content });
    const { turn, thought } = await this.#complete(this.messages);
    this.messages.push({ role: "assistant", content: `answer ${this.messages.length}`, reasoning_content: thought });
    return turn;
  }

  /** Sends the history up to its last user message again, with another content of the message `back` before that. */
  async edit(back: number, content: string): Promise<Turn> {
    const messages = this.messages.slice(0, -1);
    const at = messages.length - 1 - back;
    messages[at] = { ...messages[at], content };
    const { turn } = await this.#complete(messages);
    return turn;
  }

  async #complete(messages: readonly ThinkingMessage[]): Promise<{ readonly turn: Turn; readonly thought: string }> {
    const { url, model, marks, keepsThoughts, answerTokens, letters, encode } = this.#options;
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model,
        messages,
        temperature: 0,
        max_tokens: answerTokens,
        logit_bias: Object.fromEntries(letters.map((token) => [token, BIAS])),
      }),
    });
    if (response.status !== 200) throw new Error(`status ${response.status}: ${await response.text()}`);
    const { usage, choices } = (await response.json()) as {
      readonly usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
      readonly choices: readonly { readonly message: { readonly reasoning_content?: string } }[];
    };
    const thought = choices[0].message.reasoning_content ?? "";
    const prompt = Array.from(encode(renderThinking(messages, marks, keepsThoughts)));
    if (prompt.length !== usage.prompt_tokens)
      throw new Error(`expected a prompt of ${prompt.length} tokens, found ${usage.prompt_tokens}`);
    const shared = Math.max(0, ...this.#computed.map((known) => sharedLength(known, prompt)));
    // The last token was sampled, but not computed.
    this.#computed.push([...prompt, ...Array.from(encode(thought)).slice(0, answerTokens - 1)]);
    const computedTokens = prompt.length - usage.prompt_tokens_details.cached_tokens;
    return { turn: { promptTokens: prompt.length, newTokens: prompt.length - shared, computedTokens }, thought };
  }
}

function sharedLength(left: readonly unknown[], right: readonly unknown[]): number {
  const most = Math.min(left.length, right.length);
  for (let index = 0; index < most; index++) if (left[index] !== right[index]) return index;
  return most;
}
