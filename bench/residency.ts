// What watching a load costs it: `npm run bench -- residency FILE [pairs] [backend]`. Each sample is a server in a process
// of its own that loads the file for its first request, with a client on /residency's event stream and without, in turns.
// Medians with the lowest and the highest, and the median of the ratios of neighbours, which share the machine's mood.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { spreadOf } from "../src/cli/bench/spread.js";

const DEFAULT_PAIRS = 9;
const EMBEDDED_MODEL = "models/fable-10m-Q4_K_M.gguf";
const NAME = "large";
const CONTEXT_TOKENS = 512;
const LISTS = 200;

interface Sample {
  /** From the request that loads the model to its answer of one token. */
  readonly wallMs: number;
  /** Of the server's process, meanwhile. */
  readonly cpuMs: number;
  /** Events that the watching client got. */
  readonly events: number;
  /** Of the server's process for one list of all tensors, which is more than any other event has. */
  readonly listMs: number;
}

export async function run([path, pairs = String(DEFAULT_PAIRS), backend = "cpu"]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("residency: expected a model file");
  const [alone, watched]: [Sample[], Sample[]] = [[], []];
  // The first reads the file into the page cache and, on a GPU, compiles kernels.
  await measure(path, backend, false);
  for (let pair = 0; pair < Number(pairs); pair++) {
    const isWatchedFirst = pair % 2 === 1;
    for (const isWatched of [isWatchedFirst, !isWatchedFirst])
      (isWatched ? watched : alone).push(await measure(path, backend, isWatched));
  }
  console.log(`residency: ${path} on ${backend}, ${pairs} loads of each kind, in turns`);
  report("load without a client", alone);
  report("load with a client on the stream", watched);
  const ratios = watched.map(({ wallMs }, index) => wallMs / alone[index].wallMs);
  const { median, min, max } = spreadOf(ratios);
  console.log(`  with against without, pair by pair: ${median.toFixed(4)} (${min.toFixed(3)} to ${max.toFixed(3)})`);
  const events = spreadOf(watched.map((sample) => sample.events));
  const listMs = spreadOf(alone.map((sample) => sample.listMs)).median;
  console.log(`  events of a load: ${events.median} (${events.min} to ${events.max})`);
  console.log(`  processor time of a list of all tensors, request included: ${listMs.toFixed(2)} ms`);
}

function report(what: string, samples: readonly Sample[]): void {
  const [wall, cpu] = [spreadOf(samples.map(({ wallMs }) => wallMs)), spreadOf(samples.map(({ cpuMs }) => cpuMs))];
  const range = ({ median, min, max }: typeof wall): string =>
    `${median.toFixed(0)} ms (${min.toFixed(0)} to ${max.toFixed(0)})`;
  console.log(`  ${what}: ${range(wall)}, processor time ${range(cpu)}`);
}

async function measure(path: string, backend: string, isWatched: boolean): Promise<Sample> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), "--serve", path, backend], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const url = String((await lines.next()).value);
    const cpuMs = async (): Promise<number> => {
      child.stdin.write("\n");
      return Number((await lines.next()).value);
    };
    await using watcher = isWatched ? await watch(url) : undefined;
    const cpuBeforeMs = await cpuMs();
    const startMs = performance.now();
    await ask(url);
    const wallMs = performance.now() - startMs;
    const cpuAfterMs = await cpuMs();
    for (let list = 0; list < LISTS; list++) await (await fetch(`${url}/residency?model=${NAME}`)).text();
    const listMs = ((await cpuMs()) - cpuAfterMs) / LISTS;
    return { wallMs, cpuMs: cpuAfterMs - cpuBeforeMs, events: watcher?.events() ?? 0, listMs };
  } finally {
    child.stdin.end();
    if (child.exitCode === null) await once(child, "exit");
  }
}

async function ask(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: NAME, prompt: "Once", max_tokens: 1 }),
  });
  if (!response.ok) throw new Error(`residency: ${response.status} ${await response.text()}`);
  await response.text();
}

/** A client that reads the stream, from its first event on. */
async function watch(url: string): Promise<AsyncDisposable & { events(): number }> {
  const ended = new AbortController();
  const response = await fetch(`${url}/residency?model=${NAME}`, {
    headers: { accept: "text/event-stream" },
    signal: ended.signal,
  });
  if (!response.ok || response.body === null) throw new Error(`residency: ${response.status} ${await response.text()}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let events = 0;
  const count = (text: string): void =>
    void (events += text.split("\nevent: ").length - 1 + Number(text.startsWith("event: ")));
  count((await reader.read()).value ?? "");
  const reading = (async () => {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) count(value ?? "");
  })().catch(() => {});
  return {
    events: () => events,
    async [Symbol.asyncDispose]() {
      ended.abort();
      await reading;
    },
  };
}

/** The server of one sample: it answers each line with its processor time, and ends with its standard input. */
async function serveOnce(path: string, backend: string): Promise<void> {
  // The package itself: its addon is found from there, and not from where this file is compiled to.
  const { serve } = (await import(
    pathToFileURL(join(process.cwd(), "dist", "server", "index.js")).href
  )) as typeof import("../src/server/index.js");
  const server = await serve({
    models: [
      { name: "small", path: EMBEDDED_MODEL },
      { name: NAME, path },
    ],
    model: { backend: backend as "cpu", contextTokens: CONTEXT_TOKENS },
    port: 0,
    logLevel: "error",
  });
  console.log(server.url);
  for await (const _ of createInterface({ input: process.stdin })) {
    const { user, system } = process.cpuUsage();
    console.log((user + system) / 1000);
  }
  await server.stop(0);
}

const [flag, path, backend] = process.argv.slice(2);
if (flag === "--serve" && path !== undefined && backend !== undefined) await serveOnce(path, backend);
