// Serving in two checkouts of this project: `npm run bench -- checkouts FILE OTHER_FOLDER [pairs] [task]`. Both are built, each
// has a process that keeps its models open, and they take turns every second or two, so that both see the same machine.
// Medians with the lowest and the highest, and the median of the ratios of neighbours.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { spreadOf } from "../src/cli/bench/spread.js";
import type { ModelEngine } from "../src/engine/serving.js";
import type { Model } from "../src/index.js";

const DEFAULT_PAIRS = 25;
const EMBEDDED_MODEL = "models/fable-10m-Q4_K_M.gguf";
const CONTEXT_TOKENS = 512;
const PROMPT_TOKENS = 16;
const ORDINARY_TOKENS = 3_900;

/** What is measured: so many sequences of so many tokens, with the file or with the embedded model. */
const TASKS = {
  "one request": { isEmbedded: false, sequences: 1, tokens: 24 },
  "8 concurrent requests": { isEmbedded: false, sequences: 8, tokens: 16 },
  "64 streams of the embedded model": { isEmbedded: true, sequences: 64, tokens: 96 },
} as const;
type TaskName = keyof typeof TASKS;

interface Checkout extends AsyncDisposable {
  /** Tokens per second. */
  measure(task: TaskName): Promise<number>;
}

export async function run([path, other, pairs = String(DEFAULT_PAIRS), only = ""]: readonly string[]): Promise<void> {
  if (path === undefined || other === undefined)
    throw new TypeError("checkouts: expected a model file and the folder of another checkout");
  await using theirs = await open(other, path);
  await using ours = await open(process.cwd(), path);
  console.log(`checkouts: ${path}, ${pairs} pairs`);
  for (const task of (Object.keys(TASKS) as TaskName[]).filter((name) => name.includes(only))) {
    const [before, now]: [number[], number[]] = [[], []];
    // The first of each warms up.
    for (const checkout of [theirs, ours]) await checkout.measure(task);
    for (let pair = 0; pair < Number(pairs); pair++) {
      const isOursFirst = pair % 2 === 1;
      for (const isOurs of [isOursFirst, !isOursFirst])
        (isOurs ? now : before).push(await (isOurs ? ours : theirs).measure(task));
    }
    report(task, before, now);
  }
}

function report(task: TaskName, before: readonly number[], now: readonly number[]): void {
  const shown = (values: readonly number[], digits: number): string => {
    const { median, min, max } = spreadOf(values);
    return `${median.toFixed(digits)} (${min.toFixed(digits)} to ${max.toFixed(digits)})`;
  };
  const ratios = now.map((rate, index) => rate / before[index]);
  console.log(
    `  ${task}: other ${shown(before, 1)}, this ${shown(now, 1)} tokens/s; this against other, pair by pair ${shown(ratios, 3)}`,
  );
}

async function open(folder: string, path: string): Promise<Checkout> {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), "--measure", path], {
    cwd: folder,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async measure(task) {
      child.stdin.write(`${task}\n`);
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`checkouts: the process in ${folder} ended`);
      return Number(value);
    },
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
    },
  };
}

/** One checkout's process: each line on standard input is a task. */
async function measureTasks(path: string): Promise<void> {
  await using large = await openModel(path);
  await using small = await openModel(EMBEDDED_MODEL);
  let seed = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    const { isEmbedded, sequences, tokens } = TASKS[line as TaskName];
    const prompts = Array.from({ length: sequences }, () => promptOf(seed++));
    console.log(await rateOf((isEmbedded ? small : large).engine, prompts, tokens));
  }
}

async function openModel(path: string): Promise<Model> {
  const library = (await import(
    pathToFileURL(join(process.cwd(), "dist", "internals.js")).href
  )) as typeof import("../src/internals.js");
  return await library.openModel(path, { backend: "cpu", threads: 2, contextTokens: CONTEXT_TOKENS }, { serving: {} });
}

async function rateOf(engine: ModelEngine, prompts: readonly Int32Array[], tokens: number): Promise<number> {
  const startMs = performance.now();
  const write = async (prompt: Int32Array): Promise<void> => {
    const sampling = { temperature: 0 };
    for await (const _ of engine.complete({ prompt, maxTokens: tokens, ignoreEndOfGeneration: true, sampling }));
  };
  await Promise.all(prompts.map(write));
  return (prompts.length * tokens * 1000) / (performance.now() - startMs);
}

function promptOf(seed: number): Int32Array {
  return Int32Array.from({ length: PROMPT_TOKENS }, (_, index) => 3 + ((seed * 7919 + index * 97) % ORDINARY_TOKENS));
}

const [flag, path] = process.argv.slice(2);
if (flag === "--measure" && path !== undefined) await measureTasks(path);
