// Runs both engines, one measurement per process, so that neither's threads and memory disturb the other's. Ours is the
// built command line; the peer is node-llama-cpp with explicit threads and attention.

import { spawn } from "node:child_process";
import { join } from "node:path";
import {
  generateArguments,
  type ProcessStart,
  readArguments,
  START_PROMPT,
  START_TOKENS,
  timeProcess,
} from "../../src/cli/bench/first-token.js";
import type { LongPrompt } from "../../src/cli/bench/long-prompt.js";
import type { BenchReport } from "../../src/cli/bench/report.js";

// The folder in which npm runs scripts: this file itself is compiled into build/.
const ROOT = process.cwd();
const COMMAND_LINE = join(ROOT, "dist", "cli", "main.js");
const PEER_FOLDER = join(ROOT, "bench", "peers");
/** The peer's context length when measuring a start. */
const START_CONTEXT_TOKENS = 512;

export interface Workload {
  readonly modelPath: string;
  readonly promptTokens: number;
  readonly decodeTokens: number;
  readonly depth: number;
}

/** The configuration of the peer. */
export interface PeerSetup {
  readonly threads: number;
  readonly flashAttention: boolean;
}

export interface Speeds {
  readonly prefill?: number;
  readonly decode?: number;
}

/** The measurements that a comparison needs; each call is one process. */
export interface Engines {
  ours(work: Workload): Promise<BenchReport>;
  peer(work: Workload, setup: PeerSetup, statePath: string): Promise<Speeds>;
  /** Undefined if no path of llama-bench was given. */
  readonly llamaBench: ((work: Workload, threads: number) => Promise<Speeds>) | undefined;
  startOurs(modelPath: string): Promise<ProcessStart>;
  startPeer(modelPath: string, setup: PeerSetup): Promise<ProcessStart>;
  /** Evaluates a whole prompt, to measure memory. */
  readOurs(modelPath: string, prompt: LongPrompt): Promise<ProcessStart>;
  readPeer(modelPath: string, prompt: LongPrompt, setup: PeerSetup): Promise<ProcessStart>;
  /** The size of our KV cache for that prompt. */
  kvCacheBytes(modelPath: string, prompt: LongPrompt): Promise<number>;
}

export interface EngineOptions {
  /** The number of threads; undefined for the default. */
  readonly threads: number | undefined;
  readonly llamaBench: string | undefined;
  readonly signal: AbortSignal;
}

/**
 * Writes a synthetic model, detached from the terminal: a second signal from the terminal would keep it from removing
 * its temporary file.
 */
export async function synthesise(shape: string, type: string, path: string, signal: AbortSignal): Promise<void> {
  await runProgram(
    process.execPath,
    [COMMAND_LINE, "synth", "--shape", shape, "--type", type, "--out", path],
    signal,
    process.platform !== "win32",
  );
}

export function createEngines({ threads, llamaBench, signal }: EngineOptions): Engines {
  const model = (path: string): string[] => [
    "-m",
    path,
    ...(threads === undefined ? [] : ["--threads", String(threads)]),
  ];
  const peerScript = (name: string, work: object): string[] => [join(PEER_FOLDER, name), JSON.stringify(work)];
  return {
    async ours({ modelPath, promptTokens, decodeTokens, depth }) {
      const sizes = ["-p", promptTokens, "-n", decodeTokens, "-d", depth].map(String);
      // The process starts are measured separately.
      const how = ["--repeat", "1", "--starts", "0", "--json"];
      return JSON.parse(
        await runNode([COMMAND_LINE, "bench", ...model(modelPath), ...sizes, ...how], signal),
      ) as BenchReport;
    },
    async peer(work, setup, statePath) {
      return JSON.parse(
        await runNode(peerScript("measure-peer.mjs", { ...work, ...setup, statePath }), signal),
      ) as Speeds;
    },
    llamaBench: llamaBench === undefined ? undefined : (work, count) => runLlamaBench(llamaBench, work, count, signal),
    startOurs: (modelPath) => started([COMMAND_LINE, ...generateArguments(model(modelPath))], signal),
    startPeer: (modelPath, setup) =>
      started(
        peerScript("first-token-peer.mjs", {
          modelPath,
          ...setup,
          contextTokens: START_CONTEXT_TOKENS,
          prompt: START_PROMPT,
          count: START_TOKENS,
        }),
        signal,
      ),
    readOurs: (modelPath, prompt) =>
      started([COMMAND_LINE, ...readArguments(model(modelPath), contextFor(prompt))], signal, prompt.text),
    readPeer: (modelPath, prompt, setup) =>
      started(
        peerScript("first-token-peer.mjs", {
          modelPath,
          ...setup,
          contextTokens: contextFor(prompt),
          count: START_TOKENS,
        }),
        signal,
        prompt.text,
      ),
    async kvCacheBytes(modelPath, prompt) {
      const { memory } = JSON.parse(
        await runNode(
          [COMMAND_LINE, "plan", ...model(modelPath), "--ctx", String(contextFor(prompt)), "--json"],
          signal,
        ),
      ) as {
        readonly memory: { readonly kvCacheBytes: number };
      };
      return memory.kvCacheBytes;
    },
  };
}

function contextFor({ tokens }: LongPrompt): number {
  return tokens + START_TOKENS;
}

async function runLlamaBench(
  program: string,
  { modelPath, promptTokens, decodeTokens, depth }: Workload,
  threads: number,
  signal: AbortSignal,
): Promise<Speeds> {
  const sizes = ["-p", promptTokens, "-n", decodeTokens, ...(depth === 0 ? [] : ["-d", depth]), "-t", threads].map(
    String,
  );
  return readLlamaBench(await runProgram(program, ["-m", modelPath, ...sizes, "-r", "1", "-o", "json"], signal));
}

/** Parses one object per test: prefill tests generate no tokens, generation tests have no prompt. */
export function readLlamaBench(output: string): Speeds {
  const tests = JSON.parse(output) as readonly {
    readonly n_prompt: number;
    readonly n_gen: number;
    readonly avg_ts: number;
  }[];
  const prefill = tests.find(({ n_prompt, n_gen }) => n_prompt > 0 && n_gen === 0)?.avg_ts;
  const decode = tests.find(({ n_prompt, n_gen }) => n_prompt === 0 && n_gen > 0)?.avg_ts;
  return { ...(prefill === undefined ? {} : { prefill }), ...(decode === undefined ? {} : { decode }) };
}

async function started(nodeArguments: readonly string[], signal: AbortSignal, input?: string): Promise<ProcessStart> {
  const result = await timeProcess(nodeArguments, signal, input);
  if ("failure" in result) throw new Error(`${nodeArguments[0]} failed: ${result.failure}`);
  return result;
}

function runNode(nodeArguments: readonly string[], signal: AbortSignal): Promise<string> {
  return runProgram(process.execPath, nodeArguments, signal);
}

/**
 * Runs a program and returns its output. Settles when the program has ended, also after the signal, so that its files
 * can be removed.
 */
function runProgram(program: string, args: readonly string[], signal: AbortSignal, detached = false): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], signal, detached });
  let output = "";
  let complaint = "";
  let failure: unknown;
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaint += text));
  return new Promise((resolve, reject) => {
    child.on("error", (error) => (failure = error));
    child.on("close", (status) => {
      if (status === 0 && failure === undefined) resolve(output);
      else reject(new Error(`${program} ${args.join(" ")} failed: ${complaint.trim()}`, { cause: failure }));
    });
  });
}
