// Streaming clients of a server: requests over plain HTTP connections, and the times at which their events arrive. Reads
// as little of each event as possible, because the clients share the machine with the server.

import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";

const LAST_PIECES = 3;
const EVENT = Buffer.from("data: {");
/** The vocabulary of every published model has at least this many ordinary tokens. */
const ORDINARY_TOKENS = 3_900;

/** One streamed completion. */
export interface StreamRequest {
  readonly port: number;
  readonly prompt: readonly number[];
  readonly tokens: number;
  /** Called for every piece that arrives with at least one event. */
  readonly onEvents: (atMs: number, events: number) => void;
  readonly signal?: AbortSignal;
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

/** Streams a completion and returns the number of tokens that the server counted; undefined if it was aborted. */
export function streamCompletion({
  port,
  prompt,
  tokens,
  onEvents,
  signal,
}: StreamRequest): Promise<number | undefined> {
  const body = JSON.stringify({
    prompt,
    max_tokens: tokens,
    stream: true,
    stream_options: { include_usage: true },
    ignore_eos: true,
    temperature: 0,
  });
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => (signal?.aborted === true ? resolve(undefined) : reject(error));
    const sent: ClientRequest = request(
      {
        port,
        host: "127.0.0.1",
        path: "/v1/completions",
        method: "POST",
        agent,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
        ...(signal === undefined ? {} : { signal }),
      },
      (response) => readEvents(response, onEvents, resolve, fail),
    );
    sent.on("error", fail);
    sent.end(body);
  });
}

function readEvents(
  response: IncomingMessage,
  onEvents: StreamRequest["onEvents"],
  resolve: (tokens: number) => void,
  fail: (error: Error) => void,
): void {
  // The usage and the end of the stream may arrive together or one by one.
  const last: Buffer[] = [];
  response.on("data", (bytes: Buffer) => {
    if (response.statusCode === 200) {
      const events = countOf(bytes);
      if (events > 0) onEvents(performance.now(), events);
    }
    if (last.push(bytes) > LAST_PIECES) last.shift();
  });
  response.on("error", fail);
  response.on("end", () => {
    const text = Buffer.concat(last).toString("utf8");
    const counted = /"completion_tokens":(\d+)/.exec(text)?.[1];
    if (response.statusCode !== 200 || counted === undefined)
      fail(new Error(`the server answered ${response.statusCode}: ${text.slice(-300)}`));
    else resolve(Number(counted));
  });
}

function countOf(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(EVENT); at !== -1; at = bytes.indexOf(EVENT, at + EVENT.length)) count++;
  return count;
}

/** A sequence of random numbers below 1 that depends on its seed alone. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A prompt that shares nothing with those of other seeds. */
export function randomPrompt(seed: number, tokens: number): readonly number[] {
  const random = randomNumbers(seed * 7919 + 1);
  random();
  return Array.from({ length: tokens }, () => 3 + Math.floor(random() * ORDINARY_TOKENS));
}

/** Counts of milliseconds in steps of a twentieth, so that millions of gaps need little memory. */
export class Histogram {
  readonly #counts = new Uint32Array(60_000);
  #count = 0;
  #sum = 0;
  #most = 0;

  add(milliseconds: number, times = 1): void {
    this.#counts[Math.min(this.#counts.length - 1, Math.floor(milliseconds * 20))] += times;
    this.#count += times;
    this.#sum += milliseconds * times;
    this.#most = Math.max(this.#most, milliseconds);
  }

  get count(): number {
    return this.#count;
  }

  /** The value that a share of all values does not exceed. */
  percentile(share: number): number {
    let left = Math.ceil(this.#count * share);
    for (const [index, count] of this.#counts.entries()) {
      left -= count;
      if (left <= 0 && count > 0) return Math.min(this.#most, (index + 1) / 20);
    }
    return this.#most;
  }

  toString(): string {
    const [middle, high, highest] = [0.5, 0.99, 0.999].map((share) => this.percentile(share).toFixed(1));
    const mean = this.#count === 0 ? 0 : this.#sum / this.#count;
    return `mean ${mean.toFixed(1)}, median ${middle}, p99 ${high}, p99.9 ${highest}, longest ${this.#most.toFixed(1)} ms (${this.#count})`;
  }
}
