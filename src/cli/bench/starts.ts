// The processes that a benchmark starts, as a user would: some for the time to first token, and one with a whole prompt
// for the memory. They run after the model of this process is disposed, so that the two do not compete for memory.

import { loadTokenizer } from "../../index.js";
import type { Progress } from "../progress.js";
import { generateArguments, type ProcessStart, readArguments, START_TOKENS, startProcess } from "./first-token.js";
import { longPrompt } from "./long-prompt.js";
import type { BenchReport } from "./report.js";
import { spreadOf } from "./spread.js";

interface StartWork {
  readonly count: number;
  readonly modelPath: string;
  readonly modelArguments: readonly string[];
  /** Prompt tokens of the process whose memory is measured. */
  readonly promptTokens: number;
  readonly kvCacheBytesFor: (contextTokens: number) => number;
}

/** The part of a report that is measured in child processes. */
export type Starts = Pick<
  BenchReport,
  "timeToFirstTokenMs" | "timeToFirstToken" | "load" | "ownBytesAtFirstToken" | "peakRssBytes" | "peakRss"
>;

const NOTHING: Starts = {
  timeToFirstTokenMs: null,
  timeToFirstToken: null,
  load: null,
  ownBytesAtFirstToken: null,
  peakRssBytes: null,
  peakRss: null,
};

/** Starts the processes one after another and summarizes their figures. */
export async function startProcesses(work: StartWork, progress: Progress, signal: AbortSignal): Promise<Starts> {
  const { count, modelArguments } = work;
  const starts: ProcessStart[] = [];
  for (let run = 1; run <= count; run++) {
    progress.update(`process ${run} of ${count}`);
    const start = await startProcess(generateArguments(modelArguments), signal);
    if ("failure" in start) {
      // A file without a vocabulary cannot take text; the rest of the measurement is still valid.
      complain("time to first token", start.failure);
      break;
    }
    starts.push(start);
  }
  if (starts.length === 0) return NOTHING;
  const timeToFirstToken = spreadOf(starts.map(({ firstTokenMs }) => firstTokenMs));
  const peakRss = await peakRssOf(work, progress, signal);
  // The parts have to come from one start: the median one.
  const middle = starts.toSorted((left, right) => left.firstTokenMs - right.firstTokenMs)[(starts.length - 1) >> 1];
  return {
    timeToFirstTokenMs: timeToFirstToken.median,
    timeToFirstToken,
    load: middle.load === null ? null : { ...middle.load, firstTokenMs: middle.firstTokenMs },
    ownBytesAtFirstToken: middle.ownBytes,
    peakRssBytes: peakRss?.bytes ?? null,
    peakRss,
  };
}

async function peakRssOf(work: StartWork, progress: Progress, signal: AbortSignal): Promise<BenchReport["peakRss"]> {
  const { text, tokens } = longPrompt(await loadTokenizer(work.modelPath), work.promptTokens);
  const contextTokens = tokens + START_TOKENS;
  progress.update(`a process with a prompt of ${tokens} tokens`);
  const start = await startProcess(readArguments(work.modelArguments, contextTokens), signal, text);
  if ("failure" in start) {
    complain("peak memory", start.failure);
    return null;
  }
  return {
    bytes: start.peakRssBytes,
    promptTokens: tokens,
    contextTokens,
    kvCacheBytes: work.kvCacheBytesFor(contextTokens),
  };
}

function complain(what: string, failure: string): void {
  process.stderr.write(`rocmforge: no ${what}: ${failure.replace(/^rocmforge: /, "")}\n`);
}
