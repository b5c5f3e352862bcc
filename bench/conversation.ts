// What the turns of a conversation compute: `npm run bench -- conversation FOLDER [backend] [shape] [type] [turns]
// [tokens]`. A synthetic model of the shape is written to the folder, once with a chat template that keeps the thoughts of
// earlier turns and once with one that drops them, and served in this process; the conversation grows to that many tokens.
// New are the tokens behind the longest prefix that a prompt shares with what was computed of its conversation before.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { loadTokenizer } from "../src/index.js";

const NAME = "conversation";
const ANSWER_TOKENS = 96;
/** Computed tokens for each new one, at most. */
const MOST_PART = 1.1;
const THOUGHT = "{% if m.role == 'assistant' %}<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}";

type Tokenizer = Awaited<ReturnType<typeof loadTokenizer>>;

interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly reasoning_content?: string;
}

interface Turn {
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly computedTokens: number;
  readonly milliseconds: number;
}

export async function run([
  folder,
  backend = "auto",
  shape = "qwen35-0.8b",
  type = "Q4_K",
  turns = "20",
  tokens = "16000",
]: readonly string[]): Promise<void> {
  if (folder === undefined) throw new TypeError("conversation: expected a folder for model files");
  for (const keepsThoughts of [true, false]) {
    const path = join(folder, `${shape}-${type}-${keepsThoughts ? "keeps" : "drops"}.gguf`);
    if (!existsSync(path)) writeModel(path, shape, type, keepsThoughts);
    const which = keepsThoughts ? "keeps" : "drops";
    console.log(`conversation: ${path} on ${backend}, ${turns} turns, a template that ${which} earlier thoughts`);
    await converse(path, { backend, keepsThoughts, turns: Number(turns), tokens: Number(tokens) });
  }
}

function writeModel(path: string, shape: string, type: string, keepsThoughts: boolean): void {
  const template = `${path}.jinja`;
  writeFileSync(
    template,
    `{# </think> #}{% for m in messages %}<|im_start|>{{ m.role }}\n${keepsThoughts ? THOUGHT : ""}{{ m.content }}<|im_end|>\n{% endfor %}` +
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
  );
  const commandLine = join(process.cwd(), "dist", "cli", "main.js");
  const options = ["--shape", shape, "--type", type, "--chat-template", template, "--out", path];
  execFileSync(process.execPath, [commandLine, "synth", ...options], { stdio: ["ignore", "inherit", "inherit"] });
}

interface Plan {
  readonly backend: string;
  readonly keepsThoughts: boolean;
  readonly turns: number;
  readonly tokens: number;
}

async function converse(path: string, { backend, keepsThoughts, turns, tokens }: Plan): Promise<void> {
  // The package itself: its addon and its kernels are found from there, and not from where this file is compiled to.
  const built = async (file: string): Promise<unknown> =>
    await import(pathToFileURL(join(process.cwd(), "dist", file)).href);
  const library = (await built("index.js")) as typeof import("../src/index.js");
  const { serve } = (await built(join("server", "index.js"))) as typeof import("../src/server/index.js");
  await using server = await serve({
    models: [{ name: NAME, path }],
    model: { backend: backend as "auto", contextTokens: tokens + 4096 },
    port: 0,
    logLevel: "error",
  });
  const talk = new Conversation(server.url, await library.loadTokenizer(path), keepsThoughts);
  const messageTokens = Math.max(1, Math.floor(tokens / turns) - ANSWER_TOKENS);
  let worst = 0;
  for (let turn = 1; turn <= turns; turn++) {
    const { promptTokens, newTokens, computedTokens, milliseconds } = await talk.say(messageTokens);
    const part = computedTokens / newTokens;
    if (turn > 1) worst = Math.max(worst, part);
    console.log(
      `  turn ${turn}: prompt ${promptTokens}, new ${newTokens}, computed ${computedTokens} (${part.toFixed(3)}), ${milliseconds.toFixed(0)} ms`,
    );
  }
  const edited = await talk.edit(2);
  console.log(
    `  an edited message two before the last: prompt ${edited.promptTokens}, new ${edited.newTokens}, computed ${edited.computedTokens}, ${edited.milliseconds.toFixed(0)} ms`,
  );
  console.log(
    `  the worst turn after the first computed ${worst.toFixed(3)} tokens for a new one, allowed ${MOST_PART}`,
  );
}

/** One conversation through HTTP, and what was computed of it. */
class Conversation {
  readonly #url: string;
  readonly #tokenizer: Tokenizer;
  readonly #keepsThoughts: boolean;
  readonly #words: readonly string[];
  /** Tokens that no merge joins: a written answer is tokenized as it was generated. */
  readonly #digits: Readonly<Record<string, number>>;
  readonly #messages: Message[] = [];
  readonly #computed: Int32Array[] = [];
  #nextWord = 0;

  constructor(url: string, tokenizer: Tokenizer, keepsThoughts: boolean) {
    this.#url = url;
    this.#tokenizer = tokenizer;
    this.#keepsThoughts = keepsThoughts;
    this.#words = readFileSync(join(process.cwd(), "CHANGELOG.md"), "utf8").split(/\s+/);
    this.#digits = Object.fromEntries(Array.from("0123456789", (digit) => [this.#encode(digit)[0], 100]));
  }

  async say(messageTokens: number): Promise<Turn> {
    this.#messages.push({ role: "user", content: this.#text(messageTokens) });
    const { turn, thought } = await this.#complete(this.#messages);
    const content = `Answer ${this.#messages.length}.`;
    this.#messages.push({ role: "assistant", content, reasoning_content: thought });
    return turn;
  }

  /** Sends the history again up to its last user message, with another text of the user message `back` before it. */
  async edit(back: number): Promise<Turn> {
    const messages = this.#messages.slice(0, -1);
    const at = messages.length - 1 - 2 * back;
    messages[at] = { role: "user", content: this.#text(this.#encode(messages[at].content).length) };
    return (await this.#complete(messages)).turn;
  }

  /** The next words of a text, about so many tokens. */
  #text(tokens: number): string {
    const words: string[] = [];
    for (let count = 0; count < tokens;) {
      const word = this.#words[this.#nextWord++ % this.#words.length];
      words.push(word);
      count += this.#encode(` ${word}`).length;
    }
    return words.join(" ");
  }

  #encode(text: string): Int32Array {
    return Int32Array.from(this.#tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  }

  async #complete(messages: readonly Message[]): Promise<{ readonly turn: Turn; readonly thought: string }> {
    const startMs = performance.now();
    const response = await fetch(`${this.#url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: NAME,
        messages,
        temperature: 0,
        max_tokens: ANSWER_TOKENS,
        logit_bias: this.#digits,
      }),
    });
    if (!response.ok) throw new Error(`conversation: ${response.status} ${await response.text()}`);
    const { usage, choices } = (await response.json()) as {
      readonly usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } };
      readonly choices: readonly { readonly message: { readonly reasoning_content?: string } }[];
    };
    const milliseconds = performance.now() - startMs;
    const thought = choices[0].message.reasoning_content ?? "";
    const prompt = this.#encode(this.#render(messages));
    if (prompt.length !== usage.prompt_tokens)
      throw new Error(`conversation: expected a prompt of ${prompt.length} tokens, found ${usage.prompt_tokens}`);
    const shared = Math.max(0, ...this.#computed.map((known) => sharedLength(known, prompt)));
    // The last token was sampled, but not computed.
    const computed = this.#encode(this.#render(messages) + thought).subarray(0, prompt.length + ANSWER_TOKENS - 1);
    this.#computed.push(computed);
    const newTokens = prompt.length - shared;
    const computedTokens = prompt.length - usage.prompt_tokens_details.cached_tokens;
    return { turn: { promptTokens: prompt.length, newTokens, computedTokens, milliseconds }, thought };
  }

  /** What the model's template renders. */
  #render(messages: readonly Message[]): string {
    const texts = messages.map(({ role, content, reasoning_content: thought = "" }) => {
      const thoughts = this.#keepsThoughts && role === "assistant" ? `<think>\n${thought}\n</think>\n\n` : "";
      return `<|im_start|>${role}\n${thoughts}${content}<|im_end|>\n`;
    });
    return `${texts.join("")}<|im_start|>assistant\n<think>\n`;
  }
}

function sharedLength(left: Int32Array, right: Int32Array): number {
  const most = Math.min(left.length, right.length);
  for (let index = 0; index < most; index++) if (left[index] !== right[index]) return index;
  return most;
}
