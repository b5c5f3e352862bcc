// Both engines, one measurement in one process each, so that neither's threads and memory disturb the other's.
// Ours is the built command line; the peer is node-llama-cpp with its threads and its attention set explicitly.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { generateArguments, type ProcessStart, START_PROMPT, START_TOKENS, timeProcess } from "../../src/cli/bench/first-token.js";
import type { BenchReport } from "../../src/cli/bench/report.js";

// Where npm runs scripts: this file itself is compiled into build/.
const ROOT = process.cwd();
const COMMAND_LINE = join(ROOT, "dist", "cli", "main.js");
const PEER_FOLDER = join(ROOT, "bench", "peers");
const MAX_OUTPUT_BYTES = 2 ** 24;

export interface Workload {
  readonly modelPath: string;
  readonly promptTokens: number;
  readonly decodeTokens: number;
  readonly depth: number;
}

/** How the peer is set up. */
export interface PeerSetup {
  readonly threads: number;
  readonly flashAttention: boolean;
}

export interface Speeds {
  readonly prefill?: number;
  readonly decode?: number;
}

export async function synthesise(shape: string, type: string, path: string): Promise<void> {
  await runNode([COMMAND_LINE, "synth", "--shape", shape, "--type", type, "--out", path]);
}

/** One run of our own benchmark; the processes it would start are started apart. */
export async function runOurs(workload: Workload, threads: number | undefined): Promise<BenchReport> {
  const { modelPath, promptTokens, decodeTokens, depth } = workload;
  const sizes = ["-p", promptTokens, "-n", decodeTokens, "-d", depth].map(String);
  const how = ["--repeat", "1", "--starts", "0", "--json"];
  return JSON.parse(await runNode([COMMAND_LINE, "bench", ...ourModel(modelPath, threads), ...sizes, ...how])) as BenchReport;
}

export async function runPeer(workload: Workload, setup: PeerSetup, statePath: string): Promise<Speeds> {
  return JSON.parse(await runNode([join(PEER_FOLDER, "measure-peer.mjs"), JSON.stringify({ ...workload, ...setup, statePath })])) as Speeds;
}

export async function startOurs(modelPath: string, threads: number | undefined): Promise<ProcessStart> {
  return await started([COMMAND_LINE, ...generateArguments(ourModel(modelPath, threads))]);
}

export async function startPeer(modelPath: string, setup: PeerSetup): Promise<ProcessStart> {
  const work = { modelPath, ...setup, prompt: START_PROMPT, count: START_TOKENS };
  return await started([join(PEER_FOLDER, "first-token-peer.mjs"), JSON.stringify(work)]);
}

function ourModel(modelPath: string, threads: number | undefined): string[] {
  return ["-m", modelPath, ...(threads === undefined ? [] : ["--threads", String(threads)])];
}

async function started(nodeArguments: readonly string[]): Promise<ProcessStart> {
  const result = await timeProcess(nodeArguments, new AbortController().signal);
  if ("failure" in result) throw new Error(`${nodeArguments[0]} failed: ${result.failure}`);
  return result;
}

async function runNode(nodeArguments: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [...nodeArguments], { encoding: "utf8", maxBuffer: MAX_OUTPUT_BYTES });
  return stdout;
}
