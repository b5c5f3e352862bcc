// Clients that come and go: `npm run bench -- churn FILE [backend] [minutes] [clients]`. Their number rises and falls
// between one and `clients` four times in all, and jumps now and then; each streams answers of random lengths after
// prompts of 20 tokens, pauses, and leaves, some of them in the middle of an answer. Starts when `/health` reports that
// the server is ready. Figures: first tokens, gaps between tokens, how many were too long, and the worst with the number of
// clients at that time.

import { setTimeout as pause } from "node:timers/promises";
import { becameReady, processorMs, type ServerProcess, startServer } from "./server-process.js";
import { Histogram, randomNumbers, randomPrompt, streamCompletion } from "./streaming-clients.js";

const DEFAULTS = { minutes: 5, clients: 200 };
const PROMPT_TOKENS = 20;
const CONTEXT_TOKENS = 8192;
const WAVES = 4;
const LOOK_MS = 50;
const SHORTEST_ANSWER = 8;
const MEAN_ANSWER = 150;
const LONGEST_PAUSE_MS = 200;
const LEAVING = 0.3;
const JUMPING = 0.01;
const TOO_LATE_MS = 150;
const TOO_LONG_MS = 60;
const SHOWN = 6;
const MAX_WORST = 10_000;

export async function run([
  path,
  backend = "auto",
  minutes = String(DEFAULTS.minutes),
  clients = String(DEFAULTS.clients),
  ...args
]: readonly string[]): Promise<number> {
  if (path === undefined) throw new TypeError("churn: expected a model file");
  const folder = process.cwd();
  await using server = await startServer({ folder, path, backend, contextTokens: CONTEXT_TOKENS, args });
  const { readyMs } = await becameReady(server);
  console.log(`churn: ${path}, ${backend}: 1 to ${clients} clients for ${minutes} minutes`);
  console.log(`  ready after ${readyMs.toFixed(0)} ms`);
  const churn = new Churn(server, Number(minutes) * 60_000, Number(clients));
  await churn.run();
  return churn.report();
}

interface Wait {
  readonly milliseconds: number;
  readonly clients: number;
  readonly atMs: number;
}

class Churn {
  readonly #server: ServerProcess;
  readonly #durationMs: number;
  readonly #most: number;
  readonly #random = randomNumbers(18);
  readonly #first = new Histogram();
  readonly #gaps = new Histogram();
  readonly #late: Wait[] = [];
  readonly #long: Wait[] = [];
  readonly #clients = new Set<AbortController>();
  readonly #startMs = performance.now();
  #seed = 0;
  #tokens = 0;
  #requests = 0;
  #left = 0;

  constructor(server: ServerProcess, durationMs: number, most: number) {
    this.#server = server;
    this.#durationMs = durationMs;
    this.#most = most;
  }

  async run(): Promise<void> {
    const running = new Set<Promise<void>>();
    let jump = 0;
    for (let atMs = 0; atMs < this.#durationMs; atMs = performance.now() - this.#startMs) {
      if (this.#random() < JUMPING) jump = this.#random() < 0.5 ? 0 : this.#most * (this.#random() - 0.5);
      const wave = (1 - Math.cos((2 * Math.PI * WAVES * atMs) / this.#durationMs)) / 2;
      const wanted = Math.max(1, Math.min(this.#most, Math.round(1 + wave * (this.#most - 1) + jump)));
      while (this.#clients.size < wanted) {
        const leaving = new AbortController();
        this.#clients.add(leaving);
        const client = this.#client(leaving).finally(() => running.delete(client));
        running.add(client);
      }
      for (const leaving of [...this.#clients].slice(wanted)) this.#leave(leaving);
      await pause(LOOK_MS);
    }
    for (const leaving of this.#clients) this.#leave(leaving);
    await Promise.all(running);
  }

  /** Prints the figures; the exit code is 1 if anything took too long. */
  report(): number {
    const seconds = (performance.now() - this.#startMs) / 1000;
    console.log(
      `  ${this.#requests} answers, ${this.#left} clients left in the middle of one, ${this.#tokens} events, ${(this.#tokens / seconds).toFixed(0)} a second, processor ${((processorMs(this.#server) ?? 0) / 1000).toFixed(1)} of ${seconds.toFixed(1)} s`,
    );
    console.log(`  first tokens ${this.#first}; over ${TOO_LATE_MS} ms: ${this.#late.length} ${worst(this.#late)}`);
    console.log(`  gaps ${this.#gaps}; over ${TOO_LONG_MS} ms: ${this.#long.length} ${worst(this.#long)}`);
    return this.#late.length + this.#long.length === 0 ? 0 : 1;
  }

  #leave(leaving: AbortController): void {
    this.#clients.delete(leaving);
    leaving.abort();
    this.#left++;
  }

  async #client(leaving: AbortController): Promise<void> {
    const { signal } = leaving;
    while (!signal.aborted) {
      await this.#answer(signal);
      if (signal.aborted) return;
      if (this.#random() < LEAVING) {
        this.#clients.delete(leaving);
        return;
      }
      await pause(this.#random() * LONGEST_PAUSE_MS);
    }
  }

  async #answer(signal: AbortSignal): Promise<void> {
    const tokens = SHORTEST_ANSWER + Math.floor(-Math.log(1 - this.#random()) * MEAN_ANSWER);
    const sentMs = performance.now();
    let lastMs: number | undefined;
    const onEvents = (nowMs: number, events: number): void => {
      this.#tokens += events;
      const milliseconds = nowMs - (lastMs ?? sentMs);
      const [histogram, waits, most] =
        lastMs === undefined ? [this.#first, this.#late, TOO_LATE_MS] : [this.#gaps, this.#long, TOO_LONG_MS];
      histogram.add(milliseconds);
      if (milliseconds > most && waits.length < MAX_WORST)
        waits.push({ milliseconds, clients: this.#clients.size, atMs: nowMs - this.#startMs });
      lastMs = nowMs;
    };
    const prompt = randomPrompt(++this.#seed, PROMPT_TOKENS);
    await streamCompletion({ port: this.#server.port, prompt, tokens, onEvents, signal });
    this.#requests++;
  }
}

function worst(waits: readonly Wait[]): string {
  return waits
    .toSorted((left, right) => right.milliseconds - left.milliseconds)
    .slice(0, SHOWN)
    .map(
      ({ milliseconds, clients, atMs }) =>
        `${milliseconds.toFixed(0)} ms with ${clients} clients at ${(atMs / 1000).toFixed(2)} s`,
    )
    .join("; ");
}
