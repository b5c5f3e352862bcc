// How long a user waits for the first token, from the start of the process on, and what memory that process takes at
// its highest. The process is this very command line, writing a few tokens, as a user would start it.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const COMMAND_LINE = fileURLToPath(new URL("../main.js", import.meta.url));
export const START_PROMPT = "Once upon a time there was a";
export const START_TOKENS = 16;
const WRITING = ["-n", String(START_TOKENS), "--temp", "0", "--ignore-eos"];
/**
 * The child says how much memory it had when it ends. Linux counts what its parent had towards the usual figure, so the
 * high-water mark of its own memory is read there.
 */
const REPORT_MEMORY = `data:text/javascript,${encodeURIComponent(`
import { readFileSync, writeSync } from "node:fs";
process.on("exit", () => {
  let kilobytes = process.resourceUsage().maxRSS;
  try {
    kilobytes = /^VmHWM:\\s*(\\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))[1];
  } catch {}
  writeSync(3, String(kilobytes));
});`)}`;
const BYTES_PER_KILOBYTE = 1024;

export interface ProcessStart {
  readonly firstTokenMs: number;
  readonly peakRssBytes: number;
}

/** What the child failed with, for people, or its figures. */
export type StartResult = ProcessStart | { readonly failure: string };

export function startProcess(commandArguments: readonly string[], signal: AbortSignal, input?: string): Promise<StartResult> {
  return timeProcess([COMMAND_LINE, ...commandArguments], signal, input);
}

/** The prompt is written together with the first token. */
export function generateArguments(modelArguments: readonly string[]): string[] {
  return ["generate", ...modelArguments, "-p", START_PROMPT, ...WRITING];
}

/** For a prompt that comes from stdin, and that the context holds together with what is written. */
export function readArguments(modelArguments: readonly string[], contextTokens: number): string[] {
  return ["generate", ...modelArguments, "-f", "-", "--ctx", String(contextTokens), ...WRITING];
}

/** Runs a Node program whose first output is its first token; `input` is what it can read. */
export async function timeProcess(nodeArguments: readonly string[], signal: AbortSignal, input?: string): Promise<StartResult> {
  const start = performance.now();
  const child = spawn(process.execPath, ["--import", REPORT_MEMORY, ...nodeArguments], { stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe", "pipe"], signal });
  let firstTokenMs: number | undefined;
  let complaint = "";
  let memory = "";
  const [, output, errors, report] = child.stdio;
  // A program that fails reads nothing.
  child.stdin?.on("error", () => {});
  child.stdin?.end(input);
  output?.on("data", () => (firstTokenMs ??= performance.now() - start));
  errors?.setEncoding("utf8").on("data", (text: string) => (complaint += text));
  if (report !== null && report !== undefined && "setEncoding" in report) {
    report.setEncoding("utf8").on("data", (text: string) => (memory += text));
  }
  const status = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (status !== 0 || firstTokenMs === undefined) return { failure: complaint.trim() };
  return { firstTokenMs, peakRssBytes: Number(memory) * BYTES_PER_KILOBYTE };
}
