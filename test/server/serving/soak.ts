// A soak: many clients of all kinds at once for as long as one likes, a third of them slow or leaving, and afterwards the
// server's own account of it: nothing runs, every block is free or cached, memory is where it was after warming up.

import { setTimeout as pause } from "node:timers/promises";
import { Dice } from "../../support/dice.js";
import { drawRequest, drawStructured, type Manner, perform } from "./soak-clients.js";

export interface SoakOptions {
  /** Of a server that runs in another process: its memory is what is watched. */
  readonly url: string;
  readonly models: readonly string[];
  /** Before requests are counted and memory is watched. Whatever it is, each client asks for something once. */
  readonly warmUpMs: number;
  readonly durationMs: number;
  readonly clients: number;
  readonly seed: number;
  /** Told what goes on, now and then. */
  readonly onProgress?: (line: string) => void;
}

export interface MemorySample {
  readonly atMs: number;
  readonly residentBytes: number;
}

export interface SoakReport {
  readonly requests: number;
  readonly byKind: ReadonlyMap<string, number>;
  readonly byManner: ReadonlyMap<Manner, number>;
  /** What nobody asked for, in words. */
  readonly problems: readonly string[];
  readonly running: number;
  readonly queued: number;
  readonly inFlight: number;
  /** Neither free nor cached, though nobody runs. */
  readonly leakedBlocks: number;
  /** State slots that are neither free nor hold a checkpoint, though nobody runs. */
  readonly leakedSlots: number;
  readonly generatedTokens: number;
  readonly memory: readonly MemorySample[];
  /** What a tenth of the last fifth's samples is below, less the same of the fifth after warming up (the second). */
  readonly memoryGrowthBytes: number;
}

/** Two out of three read as one should. */
const MANNERS: readonly Manner[] = ["patient", "patient", "patient", "patient", "slow", "leaving"];
const SAMPLE_MS = 250;
const PROGRESS_MS = 30_000;
/** For what was left behind to end: a client that does not read is cancelled after 30 s. */
const SETTLE_MS = 45_000;
/** A server that makes so many mistakes need not make more. */
const MOST_PROBLEMS = 50;

export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const { url, models, durationMs, clients, seed, onProgress = () => {} } = options;
  const problems = [...(await warmUp(options))];
  const byKind = new Map<string, number>();
  const byManner = new Map<Manner, number>();
  const memory: MemorySample[] = [];
  let requests = 0;
  let isOver = false;
  const start = performance.now();
  const goesOn = (): boolean => performance.now() - start < durationMs && problems.length < MOST_PROBLEMS;

  const client = async (index: number): Promise<void> => {
    const dice = new Dice(seed + index);
    while (goesOn()) {
      const request = drawRequest(dice, models);
      const manner = dice.pick(MANNERS);
      const problem = await perform(url, request, manner, dice);
      if (problem !== undefined) problems.push(problem);
      requests++;
      byKind.set(request.kind, (byKind.get(request.kind) ?? 0) + 1);
      byManner.set(manner, (byManner.get(manner) ?? 0) + 1);
    }
  };
  const watch = async (): Promise<void> => {
    for (let told = 0; !isOver; await pause(SAMPLE_MS)) {
      const atMs = performance.now() - start;
      const residentBytes = (await readMetrics(url)).of("process_resident_memory_bytes");
      memory.push({ atMs, residentBytes });
      if (atMs - told < PROGRESS_MS) continue;
      told = atMs;
      onProgress(
        `${Math.round(atMs / 1000)} s: ${requests} requests, ${problems.length} problems, ${(residentBytes / 2 ** 20).toFixed(0)} MiB`,
      );
    }
  };
  const watching = watch();
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  isOver = true;
  await watching;
  const end = await settled(url);
  return {
    requests,
    byKind,
    byManner,
    problems,
    running: end.of("rocmforge_requests_running"),
    queued: end.of("rocmforge_requests_queued"),
    inFlight: end.of("rocmforge_http_requests_in_flight"),
    leakedBlocks:
      end.of("rocmforge_kv_blocks") - end.of("rocmforge_kv_blocks_free") - end.of("rocmforge_kv_blocks_cached"),
    leakedSlots:
      end.of("rocmforge_state_slots") - end.of("rocmforge_state_slots_free") - end.of("rocmforge_checkpoints"),
    generatedTokens: end.of("rocmforge_generated_tokens_total"),
    memory,
    memoryGrowthBytes: growthOf(memory.map(({ residentBytes }) => residentBytes)),
  };
}

/** Threads start when there is work for them; left to chance, one had none for eight minutes. New schemas from everybody are work for all. */
async function warmUp({ url, models, clients, seed, warmUpMs }: SoakOptions): Promise<readonly string[]> {
  const start = performance.now();
  const problems: string[] = [];
  const client = async (index: number): Promise<void> => {
    const dice = new Dice(seed + clients + index);
    do {
      const problem = await perform(url, drawStructured(dice, dice.pick(models)), "patient", dice);
      if (problem !== undefined) problems.push(problem);
    } while (performance.now() - start < warmUpMs && problems.length < MOST_PROBLEMS);
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return problems;
}

/** The server's account once it is idle, or what it is when the time for that is over. */
async function settled(url: string): Promise<Metrics> {
  const start = performance.now();
  for (;;) {
    const metrics = await readMetrics(url);
    const busy = ["rocmforge_requests_running", "rocmforge_requests_queued", "rocmforge_http_requests_in_flight"].some(
      (name) => metrics.of(name) > 0,
    );
    if (!busy || performance.now() - start > SETTLE_MS) return metrics;
    await pause(SAMPLE_MS);
  }
}

interface Metrics {
  /** The sum over all labels. */
  of(name: string): number;
}

export async function readMetrics(url: string): Promise<Metrics> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const totals = new Map<string, number>();
  for (const [, name, value] of text.matchAll(/^(\w+)(?:\{.*\})? (\S+)$/gm))
    totals.set(name, (totals.get(name) ?? 0) + Number(value));
  return {
    of: (name) => {
      const total = totals.get(name);
      if (total === undefined) throw new Error(`/metrics has no ${name}`);
      return total;
    },
  };
}

/** A heap breathes, and what it is after breathing out is what is kept: floors are compared. */
function growthOf(values: readonly number[]): number {
  const fifth = Math.max(1, Math.floor(values.length / 5));
  return floorOf(values.slice(-fifth)) - floorOf(values.slice(fifth, 2 * fifth));
}

function floorOf(values: readonly number[]): number {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 10)] ?? Number.NaN;
}
