// The time to first token, from the start of the process and part by part, and the memory of that process then and at
// its peak. The process is this command line itself, generating a few tokens as a user would start it. The child
// reports its own figures.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { LoadTimings } from "../../index.js";

const COMMAND_LINE = fileURLToPath(new URL("../main.js", import.meta.url));
/** The prompt of the processes whose start is timed. */
export const START_PROMPT = "Once upon a time there was a";
/** Number of tokens that such a process generates. */
export const START_TOKENS = 16;
const WRITING = ["-n", String(START_TOKENS), "--temp", "0", "--ignore-eos"];
/**
 * The child reports its memory when it ends. On Linux the usual figure includes the parent's memory, so the child's own
 * high-water mark is read; mapped file pages are not its own memory.
 */
const REPORT = `data:text/javascript,${encodeURIComponent(`
import { subscribe } from "node:diagnostics_channel";
import { readFileSync, writeSync } from "node:fs";
const kilobytes = (...names) => {
  try {
    const status = readFileSync("/proc/self/status", "utf8");
    return names.reduce((sum, name) => sum + Number(new RegExp("^" + name + ":\\\\s*(\\\\d+)", "m").exec(status)[1]), 0);
  } catch {
    return null;
  }
};
let own = null;
let load = null;
subscribe("rocmforge.load", (timings) => (load = timings ?? null));
const { stdout } = process;
const write = stdout.write;
stdout.write = (...args) => {
  own ??= kilobytes("RssAnon", "RssShmem");
  return write.apply(stdout, args);
};
process.on("exit", () => writeSync(3, JSON.stringify({ peak: kilobytes("VmHWM") ?? process.resourceUsage().maxRSS, own, load })));
`)}`;
const BYTES_PER_KILOBYTE = 1024;

/** Time and memory of one process up to its first token. */
export interface ProcessStart {
  readonly firstTokenMs: number;
  readonly peakRssBytes: number;
  /** Memory without mapped file pages at the first token; null if the system does not report it. */
  readonly ownBytes: number | null;
  /** Null if the backend loads nothing. */
  readonly load: LoadTimings | null;
}

interface Report {
  readonly peak: number;
  readonly own: number | null;
  readonly load: LoadTimings | null;
}

/** The child's figures, or its error message. */
type StartResult = ProcessStart | { readonly failure: string };

/** Runs this command line in a child process and times its first token. */
export function startProcess(
  commandArguments: readonly string[],
  signal: AbortSignal,
  input?: string,
): Promise<StartResult> {
  return timeProcess([COMMAND_LINE, ...commandArguments], signal, input);
}

/** Arguments for generating from the short prompt, which is printed together with the first token. */
export function generateArguments(modelArguments: readonly string[]): string[] {
  return ["generate", ...modelArguments, "-p", START_PROMPT, ...WRITING];
}

/** Arguments for a prompt from stdin, with a context that holds it and the generated tokens. */
export function readArguments(modelArguments: readonly string[], contextTokens: number): string[] {
  return ["generate", ...modelArguments, "-f", "-", "--ctx", String(contextTokens), ...WRITING];
}

/** Runs a Node program whose first output is its first token, with `input` as its stdin. */
export async function timeProcess(
  nodeArguments: readonly string[],
  signal: AbortSignal,
  input?: string,
): Promise<StartResult> {
  const start = performance.now();
  const child = spawn(process.execPath, ["--import", REPORT, ...nodeArguments], {
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe", "pipe"],
    signal,
  });
  let firstTokenMs: number | undefined;
  let complaint = "";
  let reported = "";
  const [, output, errors, report] = child.stdio;
  // A program that fails reads nothing.
  child.stdin?.on("error", () => {});
  child.stdin?.end(input);
  output?.on("data", () => (firstTokenMs ??= performance.now() - start));
  errors?.setEncoding("utf8").on("data", (text: string) => (complaint += text));
  if (report !== null && report !== undefined && "setEncoding" in report) {
    report.setEncoding("utf8").on("data", (text: string) => (reported += text));
  }
  const status = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (status !== 0 || firstTokenMs === undefined) return { failure: complaint.trim() };
  const { peak, own, load } = JSON.parse(reported) as Report;
  return {
    firstTokenMs,
    peakRssBytes: peak * BYTES_PER_KILOBYTE,
    ownBytes: own === null ? null : own * BYTES_PER_KILOBYTE,
    load,
  };
}
