// What the turns of a conversation compute: `npm run bench -- conversation FOLDER [backend] [shape] [type] [turns]
// [tokens]`. A synthetic model of the shape is written to the folder, once with a chat template that keeps the thoughts of
// earlier turns and once with one that drops them, and served in this process; the conversation grows to that many tokens.
// New are the tokens behind the longest prefix that a prompt shares with what was computed of its conversation before.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Conversation, type Turn } from "../test/server/serving/hybrid-conversation.js";
import { thinkingTemplate } from "../test/support/thinking-template.js";

const NAME = "conversation";
const ANSWER_TOKENS = 96;
/** Computed tokens for each new one, at most. */
const MOST_PART = 1.1;
const MARKS = { begin: "<|im_start|>", end: "<|im_end|>" };
/** The third-last message of the user, in messages before the last. */
const EDITED = 4;

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
    const which = keepsThoughts ? "keeps" : "drops";
    const path = join(folder, `${shape}-${type}-${which}.gguf`);
    if (!existsSync(path)) writeModel(path, shape, type, keepsThoughts);
    console.log(`conversation: ${path} on ${backend}, ${turns} turns, a template that ${which} earlier thoughts`);
    await converse(path, { backend, keepsThoughts, turns: Number(turns), tokens: Number(tokens) });
  }
}

function writeModel(path: string, shape: string, type: string, keepsThoughts: boolean): void {
  const template = `${path}.jinja`;
  writeFileSync(template, thinkingTemplate(MARKS, keepsThoughts));
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
  const tokenizer = await library.loadTokenizer(path);
  const encode = (text: string): Int32Array => tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
  const talk = new Conversation({
    url: server.url,
    model: NAME,
    marks: MARKS,
    keepsThoughts,
    answerTokens: ANSWER_TOKENS,
    letters: Array.from("0123456789", (digit) => encode(digit)[0]),
    encode,
  });
  const messageOf = textSource(encode, Math.max(1, Math.floor(tokens / turns) - ANSWER_TOKENS));
  let worst = 0;
  for (let turn = 1; turn <= turns; turn++) {
    const { newTokens, computedTokens } = await report(`turn ${turn}`, talk.say(messageOf()));
    if (turn > 1) worst = Math.max(worst, computedTokens / newTokens);
  }
  await report("the third-last message edited", talk.edit(EDITED, messageOf()));
  console.log(
    `  the worst turn after the first computed ${worst.toFixed(3)} tokens for a new one, allowed ${MOST_PART}`,
  );
}

async function report(what: string, answer: Promise<Turn>): Promise<Turn> {
  const startMs = performance.now();
  const turn = await answer;
  const { promptTokens, newTokens, computedTokens } = turn;
  const milliseconds = (performance.now() - startMs).toFixed(0);
  const part = (computedTokens / newTokens).toFixed(3);
  console.log(
    `  ${what}: prompt ${promptTokens}, new ${newTokens}, computed ${computedTokens} (${part}), ${milliseconds} ms`,
  );
  return turn;
}

/** Texts of about `tokens` tokens, each continuing where the one before ended. */
function textSource(encode: (text: string) => Int32Array, tokens: number): () => string {
  const all = readFileSync(join(process.cwd(), "CHANGELOG.md"), "utf8").split(/\s+/);
  let next = 0;
  return () => {
    const words: string[] = [];
    for (let count = 0; count < tokens;) {
      const word = all[next++ % all.length];
      words.push(word);
      count += encode(` ${word}`).length;
    }
    return words.join(" ");
  };
}
