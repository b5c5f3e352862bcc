// How much of its speed a client's stream keeps while eight connections post the largest bodies allowed, and how long
// /health takes meanwhile: `npm run bench -- large-bodies [--seconds 6] [--backend cpu] [KIND …]`. The server and the
// posting clients are separate processes; results on a busy machine mean nothing.

import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, get, request } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DEFAULT_LIMITS } from "../src/server/http/limits.js";

const CONNECTIONS = 8;
const WARM_UP_MS = 2000;
const MS_PER_SECOND = 1000;
const HEALTH_EVERY_MS = 50;
const STREAMED_TOKENS = 400;
const { bodyBytes, promptCharacters, tokenizeCharacters, detokenizeTokens, prompts, messages } = DEFAULT_LIMITS;

interface LargeBody {
  readonly path: string;
  readonly body: () => string;
}

/** Text with short tokens and words that are in no cache. */
function noise(characters: number): string {
  let seed = 1;
  return Array.from({ length: characters }, () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return String.fromCharCode(0x61 + ((seed >>> 16) % 26));
  }).join("");
}

const KINDS: Readonly<Record<string, LargeBody>> = {
  tokenize: {
    path: "/tokenize",
    body: () => JSON.stringify({ content: noise(tokenizeCharacters), with_pieces: true }),
  },
  detokenize: {
    path: "/detokenize",
    body: () => JSON.stringify({ tokens: Array.from({ length: detokenizeTokens }, (_, index) => index % 4000) }),
  },
  prompt: { path: "/v1/completions", body: () => JSON.stringify({ prompt: noise(promptCharacters), max_tokens: 1 }) },
  prompts: {
    path: "/v1/completions",
    body: () =>
      JSON.stringify({
        prompt: Array.from({ length: prompts }, () => noise(promptCharacters / prompts)),
        max_tokens: 1,
      }),
  },
  tokens: {
    path: "/v1/completions",
    body: () => JSON.stringify({ prompt: Array.from({ length: 262_000 }, (_, index) => index % 4000), max_tokens: 1 }),
  },
  chat: {
    path: "/v1/chat/completions",
    body: () => JSON.stringify({ messages: [{ role: "user", content: noise(promptCharacters) }], max_tokens: 1 }),
  },
  parts: {
    path: "/v1/chat/completions",
    body: () =>
      JSON.stringify({
        messages: Array.from({ length: messages }, () => ({
          role: "user",
          content: Array.from({ length: 30 }, () => ({ type: "text", text: "x" })),
        })),
      }),
  },
  escapes: { path: "/v1/completions", body: () => `{"prompt":"${String.raw`\u00e9`.repeat(bodyBytes / 6 - 10)}"}` },
  fields: {
    path: "/v1/chat/completions",
    body: () =>
      JSON.stringify({
        messages: [],
        metadata: Array.from({ length: 60 }, (_, list) =>
          Object.fromEntries(Array.from({ length: 4000 }, (_field, index) => [`${list}-${index}`, "value"])),
        ),
      }),
  },
};

interface Measure {
  readonly tokensPerSecond: number;
  readonly longestHealthMs: number;
}

export async function run(args: readonly string[]): Promise<void> {
  const options = { seconds: { type: "string", default: "6" }, backend: { type: "string", default: "cpu" } } as const;
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
  const command = [
    join("dist", "cli", "main.js"),
    "serve",
    "--port",
    "0",
    "--backend",
    values.backend,
    "--log-level",
    "silent",
  ];
  const server = spawn(process.execPath, command, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ROCMFORGE_API_KEYS: undefined },
  });
  try {
    const port = await listening(server.stdout);
    const stream = new EndlessStream(port);
    await pause(WARM_UP_MS);
    for (const kind of positionals.length === 0 ? Object.keys(KINDS) : positionals) {
      const durationMs = Number(values.seconds) * MS_PER_SECOND;
      const alone = await measure(port, stream, durationMs / 2);
      const posting = await startPosting(port, kind);
      const beside = await measure(port, stream, durationMs);
      posting.kill();
      await once(posting, "exit");
      const share = (100 * beside.tokensPerSecond) / alone.tokensPerSecond;
      const rates = `${alone.tokensPerSecond.toFixed(0)} tokens/s alone, ${beside.tokensPerSecond.toFixed(0)} beside`;
      console.log(
        `  ${kind.padEnd(10)} ${share.toFixed(0).padStart(4)} %: ${rates}; /health within ${beside.longestHealthMs.toFixed(0)} ms`,
      );
      await pause(WARM_UP_MS);
    }
  } finally {
    server.kill("SIGKILL");
  }
}

async function measure(port: number, stream: EndlessStream, durationMs: number): Promise<Measure> {
  const startMs = performance.now();
  const before = stream.events;
  let longestHealthMs = 0;
  while (performance.now() - startMs < durationMs) {
    const askedMs = performance.now();
    await new Promise<void>((resolve, reject) => {
      get({ port, path: "/health", agent: false }, (answer) => answer.resume().on("end", resolve)).on("error", reject);
    });
    longestHealthMs = Math.max(longestHealthMs, performance.now() - askedMs);
    await pause(HEALTH_EVERY_MS);
  }
  return {
    tokensPerSecond: ((stream.events - before) * MS_PER_SECOND) / (performance.now() - startMs),
    longestHealthMs,
  };
}

/** A client that streams one completion after the other. */
class EndlessStream {
  /** The number of events, about one per token. */
  events = 0;
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
    this.#begin();
  }

  #begin(): void {
    const body = JSON.stringify({
      prompt: "Once upon a time",
      max_tokens: STREAMED_TOKENS,
      ignore_eos: true,
      stream: true,
    });
    const asked = request(
      { port: this.#port, path: "/v1/completions", method: "POST", headers: { "content-type": "application/json" } },
      (answer) => {
        answer.setEncoding("utf8");
        answer.on("data", (text: string) => (this.events += text.split("data: ").length - 1));
        answer.on("end", () => this.#begin());
      },
    );
    // The server has stopped, and the client ends with it.
    asked.on("error", () => {});
    asked.end(body);
  }
}

async function listening(stdout: NodeJS.ReadableStream): Promise<number> {
  let text = "";
  for await (const chunk of stdout) {
    text += String(chunk);
    const port = /^rocmforge is listening on \S+:(?<port>\d+)$/m.exec(text)?.groups?.["port"];
    if (port !== undefined) return Number(port);
  }
  throw new Error(`rocmforge serve ended before it listened:\n${text}`);
}

const POSTING = "--post";

async function startPosting(port: number, kind: string): Promise<ChildProcess> {
  if (!(kind in KINDS)) throw new TypeError(`large-bodies: expected ${Object.keys(KINDS).join(", ")}, found ${kind}`);
  const posting = fork(fileURLToPath(import.meta.url), [POSTING, String(port), kind]);
  await once(posting, "message");
  await pause(WARM_UP_MS);
  return posting;
}

/**
 * Runs in its own process: posts the same body over and over, on each connection as soon as the last response has
 * arrived.
 */
function post(port: number, { path, body }: LargeBody): void {
  const bytes = Buffer.from(body());
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const postNext = (): void => {
    const asked = request(
      {
        port,
        path,
        method: "POST",
        agent,
        headers: { "content-type": "application/json", "content-length": bytes.length },
      },
      (answer) => answer.resume().on("end", postNext),
    );
    asked.on("error", () => void setTimeout(postNext, HEALTH_EVERY_MS));
    asked.end(bytes);
  };
  for (let connection = 0; connection < CONNECTIONS; connection++) postNext();
  process.send?.("posting");
}

const [, , mode, portText, kindText] = process.argv;
if (mode === POSTING) post(Number(portText), KINDS[kindText]);
