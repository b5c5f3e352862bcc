// A conversation with a model that thinks before it replies, through HTTP. It keeps account of what the server has
// computed before, so that each turn knows how many of its tokens are new.

import { LETTERS } from "../../support/hybrid-model.js";

/** How many tokens each answer has; all of them are a thought, because the model never ends one. */
const ANSWER_TOKENS = 24;

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly reasoning_content?: string;
}

export interface Turn {
  readonly promptTokens: number;
  /** Tokens behind the longest prefix that the prompt shares with anything that was computed before. */
  readonly newTokens: number;
  /** Prompt tokens that the server computed. */
  readonly computedTokens: number;
}

/** One conversation, and what was computed of it. */
export class Conversation {
  readonly #url: string;
  readonly #keepsThoughts: boolean;
  readonly #name: string;
  readonly messages: Message[] = [];
  /** Prompts and answers, as far as they were computed. */
  readonly #computed: (readonly string[])[] = [];

  constructor(url: string, options: { readonly model: string; readonly keepsThoughts: boolean }) {
    this.#url = url;
    this.#name = options.model;
    this.#keepsThoughts = options.keepsThoughts;
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

  async #complete(messages: readonly Message[]): Promise<{ readonly turn: Turn; readonly thought: string }> {
    const response = await fetch(`${this.#url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: this.#name,
        messages,
        temperature: 0,
        max_tokens: ANSWER_TOKENS,
        logit_bias: Object.fromEntries(LETTERS.map((token) => [token, 100])),
      }),
    });
    if (response.status !== 200) throw new Error(`status ${response.status}: ${await response.text()}`);
    const { usage, choices } = (await response.json()) as {
      readonly usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
      readonly choices: readonly { readonly message: { readonly reasoning_content?: string } }[];
    };
    const thought = choices[0].message.reasoning_content ?? "";
    const prompt = tokensOf(this.#prompt(messages));
    if (prompt.length !== usage.prompt_tokens)
      throw new Error(`expected a prompt of ${prompt.length} tokens, found ${usage.prompt_tokens}`);
    const shared = Math.max(0, ...this.#computed.map((known) => sharedLength(known, prompt)));
    // The last token was sampled, but not computed.
    this.#computed.push([...prompt, ...tokensOf(thought).slice(0, ANSWER_TOKENS - 1)]);
    const computedTokens = prompt.length - usage.prompt_tokens_details.cached_tokens;
    return { turn: { promptTokens: prompt.length, newTokens: prompt.length - shared, computedTokens }, thought };
  }

  /** What the model's template renders. */
  #prompt(messages: readonly Message[]): string {
    const texts = messages.map(({ role, content, reasoning_content: thought = "" }) => {
      const thoughts = this.#keepsThoughts && role === "assistant" ? `<think>\n${thought}\n</think>\n\n` : "";
      return `<|0|>${role}\n${thoughts}${content}<|1|>\n`;
    });
    return `${texts.join("")}<|0|>assistant\n<think>\n`;
  }
}

/** A token per byte, but for control tokens and the one merge. */
function tokensOf(text: string): readonly string[] {
  return text.match(/<\|\d\|>|th|[^]/g) ?? [];
}

function sharedLength(left: readonly string[], right: readonly string[]): number {
  const most = Math.min(left.length, right.length);
  for (let index = 0; index < most; index++) if (left[index] !== right[index]) return index;
  return most;
}
