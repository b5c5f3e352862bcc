// The engine loop on a simulated clock: the real scheduler and pace, a device whose steps take what its cost model says,
// and a host that does one thing at a time. What clients would see (first tokens, gaps between tokens) is the same on every
// machine, so that tests can hold it to milliseconds. What the host needs is chosen so that simulated clients that come and
// go get the figures that were measured on an H200.

import { BlockPools } from "../../kv-cache/block-pools.js";
import { schedulerLimits } from "../limits.js";
import { PrefillPace, stepTokensOf } from "../prefill-pace.js";
import type { ScheduledSequence } from "../scheduled-sequence.js";
import { Scheduler } from "../scheduler.js";
import type { StepSlice } from "../step-slice.js";

const BLOCK_TOKENS = 32;
/** From the results of a step to the launch of the next one, and of that for each token. */
const BETWEEN_STEPS_MS = 0.6;
const TAKE_TOKEN_MS = 0.03;
/** Sends a token to its client; while the next step runs. */
const SEND_TOKEN_MS = 0.04;
/** Reads a request and queues it; the results of a step that ends later wait. */
const REQUEST_MS = 0.4;

/** How long steps take on a device, and how large they may be. */
export interface SimulatedCosts {
  readonly maxStepTokens: number;
  readonly chunkTokens?: number;
  readonly sequences: number;
  stepMs(decoding: number, prefill: number): number;
}

/** Figures of an 8B model in Q4_K_M: milliseconds of a step that decodes this many sequences. */
const H200_DECODE_MS = [
  [0, 0],
  [1, 1.5],
  [16, 3.3],
  [64, 4.9],
  [128, 8.1],
  [256, 14],
] as const;

/** An H200 with an 8B model in Q4_K_M, from what was measured of decode steps and prefill alone. */
export const H200: SimulatedCosts = {
  maxStepTokens: 4096,
  sequences: 256,
  stepMs(decoding, prefill) {
    const upper = Math.max(
      1,
      H200_DECODE_MS.findIndex(([count]) => count >= decoding),
    );
    const [[fromCount, fromMs], [toCount, toMs]] = [H200_DECODE_MS[upper - 1], H200_DECODE_MS[upper]];
    const decodeMs = fromMs + ((toMs - fromMs) * (decoding - fromCount)) / (toCount - fromCount);
    if (prefill === 0) return decodeMs;
    const few = Math.min(prefill, Math.max(0, 512 - decoding));
    return decodeMs + 1.5 + few / 28 + (prefill - few) / 31;
  },
};

/** A processor with a small model: a token of prefill takes 4 ms. */
export const SLOW_PROCESSOR: SimulatedCosts = {
  maxStepTokens: 512,
  chunkTokens: 256,
  sequences: 64,
  stepMs: (decoding, prefill) => 30 + decoding * 1.5 + prefill * 4,
};

/** A request of a simulated client. */
export interface SimulatedRequest {
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** Called when its last token has arrived. */
  readonly onEnd?: (atMs: number) => void;
}

/** A request that was sent. */
export interface SentRequest extends SimulatedRequest {
  readonly sentMs: number;
  sequence?: ScheduledSequence;
  written: number;
  lastMs: number | undefined;
  isCancelled: boolean;
}

/** Something that the host does. */
interface Task {
  readonly atMs: number;
  readonly hostMs: number;
  run(): void;
}

/** Runs requests of simulated clients on a simulated device. */
export class SimulatedLoop {
  readonly firstTokensMs: number[] = [];
  readonly gapsMs: number[] = [];
  nowMs = 0;
  readonly #costs: SimulatedCosts;
  readonly #scheduler: Scheduler;
  readonly #pace: PrefillPace;
  readonly #sent = new Map<ScheduledSequence, SentRequest>();
  /** Earliest first. */
  readonly #tasks: Task[] = [];
  /** When the host has done everything that it has begun. */
  #hostMs = 0;
  /** Tokens that were not sent yet. */
  #unsentTokens = 0;

  constructor(costs: SimulatedCosts) {
    this.#costs = costs;
    const { maxStepTokens, sequences, chunkTokens = maxStepTokens } = costs;
    const limits = schedulerLimits({ maxStepTokens, maxStepOutputs: 256, chunkTokens }, { sequences, queued: 10_000 });
    const pools = new BlockPools([{ blocks: sequences * 256 }], BLOCK_TOKENS);
    this.#scheduler = new Scheduler(pools, limits, () => {});
    this.#pace = new PrefillPace(limits);
  }

  /** Calls `run` at this time, or when the host is done with what it was asked for earlier. */
  at(atMs: number, run: () => void, hostMs = 0): void {
    let index = this.#tasks.length;
    while (index > 0 && this.#tasks[index - 1].atMs > atMs) index--;
    this.#tasks.splice(index, 0, { atMs, hostMs, run });
  }

  /** Sends a request at this time. */
  send(atMs: number, request: SimulatedRequest): SentRequest {
    const sent: SentRequest = { ...request, sentMs: atMs, written: 0, lastMs: undefined, isCancelled: false };
    this.at(atMs, () => this.#submit(sent), REQUEST_MS);
    return sent;
  }

  /** The client disconnects. */
  cancel(sent: SentRequest): void {
    sent.isCancelled = true;
    if (sent.sequence !== undefined && this.#sent.delete(sent.sequence)) this.#scheduler.remove(sent.sequence);
  }

  /** Forgets what was measured. */
  clear(): void {
    this.firstTokensMs.length = 0;
    this.gapsMs.length = 0;
  }

  /** Runs until this time, or until nothing is left to do. */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    while (this.nowMs < untilMs) {
      const slices = this.#scheduler.next(this.#pace);
      if (slices !== undefined) this.#step(slices);
      else if (this.#tasks.length > 0) this.#work(Math.max(this.nowMs, this.#tasks[0].atMs));
      else return;
    }
  }

  #submit(sent: SentRequest): void {
    if (sent.isCancelled) return;
    const { promptTokens, answerTokens } = sent;
    const tokens = new Int32Array(promptTokens);
    const capacityTokens = promptTokens + answerTokens;
    const sequence = this.#scheduler.submit({ tokens, capacityTokens, priority: 0, slots: 1 });
    if (typeof sequence === "string") throw new RangeError(`the simulated queue refused a request: ${sequence}`);
    sent.sequence = sequence;
    this.#sent.set(sequence, sent);
  }

  /** The host does what it is asked for until then; that may take longer. */
  #work(untilMs: number): void {
    for (let [task] = this.#tasks; task !== undefined && task.atMs <= untilMs; [task] = this.#tasks) {
      this.#tasks.shift();
      this.#hostMs = Math.max(this.#hostMs, task.atMs) + task.hostMs;
      task.run();
    }
    this.nowMs = Math.max(untilMs, this.#hostMs);
  }

  #step(slices: readonly StepSlice[]): void {
    const launchMs = this.nowMs;
    this.#hostMs = launchMs + this.#unsentTokens * SEND_TOKEN_MS;
    const tokens = stepTokensOf(slices);
    this.#work(launchMs + this.#costs.stepMs(tokens.decoding, tokens.prefill));
    this.#pace.measured(tokens, this.nowMs - launchMs);
    this.#scheduler.advance(slices);
    const taken = slices.filter(({ sequence, outputs }) => outputs > 0 && sequence.state === "running");
    for (const { sequence } of taken) this.#take(sequence);
    this.#unsentTokens = taken.length;
    this.nowMs += BETWEEN_STEPS_MS + taken.length * TAKE_TOKEN_MS;
  }

  #take(sequence: ScheduledSequence): void {
    const sent = this.#sent.get(sequence);
    if (sent === undefined) return;
    if (sent.lastMs === undefined) this.firstTokensMs.push(this.nowMs - sent.sentMs);
    else this.gapsMs.push(this.nowMs - sent.lastMs);
    sent.lastMs = this.nowMs;
    if (++sent.written < sent.answerTokens) {
      sequence.push(1);
      return;
    }
    this.#sent.delete(sequence);
    this.#scheduler.remove(sequence);
    sent.onEnd?.(this.nowMs);
  }
}
