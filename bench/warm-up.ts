// What the first requests of a server wait for: `npm run bench -- warm-up FILE [backend] [rounds] [package]`. Every
// figure is from a process that has just become ready; the first start compiles its kernels into an empty cache.
// `package` is a folder with another build of this package to compare with. Figures: start to ready without and with
// cached kernels, the first token of a 20-token prompt, the longest gap between two tokens of a stream while clients go
// from 1 to 64 and back, the first prompt of 4,096 tokens, and start to first token of a request that is sent as soon
// as the port is open.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { spreadOf } from "../src/cli/bench/spread.js";
import { becameReady, type ServerProcess, startServer } from "./server-process.js";

const DEFAULT_ROUNDS = 3;
const SHORT_PROMPT_TOKENS = 20;
const LONG_PROMPT_TOKENS = 4096;
const CONTEXT_TOKENS = 8192;
const CLIENTS = 64;
const BETWEEN_CLIENTS_MS = 60;
const HOLD_MS = 1500;
const STREAM_TOKENS = 4000;
const READY_TIMEOUT_MS = 300_000;
/** The vocabulary of every published model has at least this many ordinary tokens. */
const ORDINARY_TOKENS = 3_900;
const TOKEN_STRIDE = 97;

export async function run([
  path,
  backend = "auto",
  rounds = String(DEFAULT_ROUNDS),
  folder = process.cwd(),
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("warm-up: expected a model file");
  const cache = process.env["ROCMFORGE_KERNEL_CACHE"] ?? mkdtempSync(join(tmpdir(), "rocmforge-warm-up-"));
  const start = (): Promise<ServerProcess> =>
    startServer({
      folder,
      path,
      backend,
      contextTokens: CONTEXT_TOKENS,
      env: { ROCMFORGE_KERNEL_CACHE: cache },
    });
  try {
    console.log(`warm-up: ${path}, ${backend}, ${folder}, ${rounds} rounds`);
    await firstStart(start);
    const figures = new Map<string, number[]>();
    const note = (name: string, value: number): void => void figures.set(name, [...(figures.get(name) ?? []), value]);
    for (let round = 0; round < Number(rounds); round++) await measureRound(start, note);
    for (const [name, values] of figures) {
      const { median, min, max } = spreadOf(values);
      console.log(`  ${name}: ${median.toFixed(0)} (${min.toFixed(0)} to ${max.toFixed(0)})`);
    }
  } finally {
    if (process.env["ROCMFORGE_KERNEL_CACHE"] === undefined) rmSync(cache, { recursive: true, force: true });
  }
}

type Note = (name: string, value: number) => void;

async function firstStart(start: () => Promise<ServerProcess>): Promise<void> {
  await using server = await start();
  const ready = await becameReady(server);
  const firstMs = await firstTokenMs(server, promptOf(6, SHORT_PROMPT_TOKENS));
  const { gapMs, worst } = await ramp(server);
  const rate = await promptRate(server, 7);
  console.log(
    `  no kernel compiled before: loaded after ${ready.loadedMs.toFixed(0)} ms, ready after ${ready.readyMs.toFixed(0)} ms`,
  );
  console.log(
    `    then first token ${firstMs.toFixed(0)} ms, longest gap ${gapMs.toFixed(0)} ms (${worst.join("; ")}), first long prompt ${rate.toFixed(0)} tokens/s`,
  );
  // Waits for background compilation in a server that is ready before it.
  await quiet(server);
}

async function measureRound(start: () => Promise<ServerProcess>, note: Note): Promise<void> {
  {
    await using server = await start();
    const { loadedMs, readyMs } = await becameReady(server);
    note("start to model loaded, ms", loadedMs);
    note("start to ready, ms", readyMs);
    note(
      `first token of ${SHORT_PROMPT_TOKENS} tokens, ms`,
      await firstTokenMs(server, promptOf(1, SHORT_PROMPT_TOKENS)),
    );
    note("a second one, ms", await firstTokenMs(server, promptOf(2, SHORT_PROMPT_TOKENS)));
    const first = await ramp(server);
    note(`longest gap from 1 to ${CLIENTS} clients and back, ms`, first.gapMs);
    console.log(`  longest gaps: ${first.worst.join("; ")}`);
    note("the same again, ms", (await ramp(server)).gapMs);
  }
  {
    await using server = await start();
    await becameReady(server);
    note(`first prompt of ${LONG_PROMPT_TOKENS} tokens, tokens/s`, await promptRate(server, 3));
    note("a second one, tokens/s", await promptRate(server, 4));
  }
  {
    await using server = await start();
    await firstTokenMs(server, promptOf(5, SHORT_PROMPT_TOKENS));
    note("start to first token of a request sent at once, ms", performance.now() - server.startMs);
  }
}

/** Waits until the server's process has been idle for a second. */
async function quiet(server: ServerProcess): Promise<void> {
  const { pid } = server.child;
  if (pid === undefined || process.platform !== "linux") return;
  const { readFileSync } = await import("node:fs");
  const children = (): string => readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  const endMs = performance.now() + READY_TIMEOUT_MS;
  for (let calm = 0; calm < 4 && performance.now() < endMs; calm = children() === "" ? calm + 1 : 0) await pause(500);
}

async function firstTokenMs(server: ServerProcess, prompt: readonly number[]): Promise<number> {
  const startMs = performance.now();
  for await (const _ of stream(server, prompt, 1)) return performance.now() - startMs;
  throw new Error("the answer has no token");
}

async function promptRate(server: ServerProcess, seed: number): Promise<number> {
  return (LONG_PROMPT_TOKENS * 1000) / (await firstTokenMs(server, promptOf(seed, LONG_PROMPT_TOKENS)));
}

interface Ramp {
  readonly gapMs: number;
  readonly worst: readonly string[];
}

/**
 * Clients start one after the other and stop in the same way; each records the longest time between two of its tokens.
 */
async function ramp(server: ServerProcess): Promise<Ramp> {
  const gaps: { readonly gapMs: number; readonly clients: number; readonly atMs: number }[] = [];
  const startMs = performance.now();
  let clients = 0;
  const client = async (index: number, signal: AbortSignal): Promise<void> => {
    clients++;
    let lastMs: number | undefined;
    try {
      for await (const _ of stream(server, promptOf(1000 + index, SHORT_PROMPT_TOKENS), STREAM_TOKENS, signal)) {
        const nowMs = performance.now();
        if (lastMs !== undefined) gaps.push({ gapMs: nowMs - lastMs, clients, atMs: nowMs - startMs });
        lastMs = nowMs;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      clients--;
    }
  };
  const leaving = Array.from({ length: CLIENTS }, () => new AbortController());
  const running: Promise<void>[] = [];
  for (const [index, { signal }] of leaving.entries()) {
    running.push(client(index, signal));
    await pause(BETWEEN_CLIENTS_MS);
  }
  await pause(HOLD_MS);
  for (const controller of leaving) {
    controller.abort();
    await pause(BETWEEN_CLIENTS_MS);
  }
  await Promise.all(running);
  gaps.sort((left, right) => right.gapMs - left.gapMs);
  const worst = gaps
    .slice(0, 3)
    .map(({ gapMs, clients: count, atMs }) => `${gapMs.toFixed(0)} ms with ${count} clients at ${atMs.toFixed(0)} ms`);
  return { gapMs: gaps[0]?.gapMs ?? 0, worst: [...worst, `${gaps.length} gaps`] };
}

/** The events of a streamed completion. */
async function* stream(
  { url }: ServerProcess,
  prompt: readonly number[],
  tokens: number,
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt, max_tokens: tokens, stream: true, ignore_eos: true, temperature: 0 }),
    ...(signal === undefined ? {} : { signal }),
  });
  if (!response.ok || response.body === null)
    throw new Error(`the server answered ${response.status}: ${await response.text()}`);
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body) {
    text += decoder.decode(bytes as Uint8Array, { stream: true });
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) if (event.startsWith("data: {")) yield event;
  }
}

function promptOf(seed: number, tokens: number): readonly number[] {
  return Array.from({ length: tokens }, (_, index) => 3 + ((seed * 7919 + index * TOKEN_STRIDE) % ORDINARY_TOKENS));
}
