// Clients of the simulated loop, as those of `npm run bench -- churn` and `npm run bench -- load`, with the same random
// numbers on every machine whatever the scheduler does.

import type { SentRequest, SimulatedLoop } from "./simulated-loop.js";

const SHORT_PROMPT = 20;
/** From one request of a process to its next one. */
const BETWEEN_REQUESTS_MS = 0.15;
const LOOK_MS = 50;
const WAVES = 4;
const JUMPING = 0.01;
const LEAVING = 0.3;
const LONGEST_PAUSE_MS = 200;
const SHORTEST_ANSWER = 8;
const MEAN_ANSWER = 150;

/** Sends requests one right after the other. */
export function sendBurst(loop: SimulatedLoop, clients: number, answerTokens: number): void {
  const atMs = loop.nowMs;
  for (let index = 0; index < clients; index++)
    loop.send(atMs + index * BETWEEN_REQUESTS_MS, { promptTokens: SHORT_PROMPT, answerTokens });
}

/** Decoding sequences that arrived one by one, and short answers before them: what a server knows before a burst. */
export function runQuietly(loop: SimulatedLoop, decoding: number): void {
  const untilMs = loop.nowMs + 4000;
  for (let client = 0; client < 40; client++) {
    const answer = (atMs: number): void => {
      if (atMs < untilMs) loop.send(atMs, { promptTokens: SHORT_PROMPT, answerTokens: 60, onEnd: answer });
    };
    answer(loop.nowMs + client * 10);
  }
  loop.run();
  const atMs = loop.nowMs;
  for (let index = 0; index < decoding; index++)
    loop.send(atMs + index * 40, { promptTokens: SHORT_PROMPT, answerTokens: 3000 });
  loop.run(atMs + decoding * 40 + 300);
  loop.clear();
}

interface Load {
  readonly clients: number;
  readonly promptTokens: number;
  readonly answerTokens: number;
  /** Requests of each client, one after the other. */
  readonly times: number;
}

/** Clients that arrive together; each sends its next request as soon as it has its answer. */
export function runLoad(loop: SimulatedLoop, { clients, promptTokens, answerTokens, times }: Load): void {
  const startMs = loop.nowMs;
  for (let client = 0; client < clients; client++) {
    let sent = 0;
    const answer = (atMs: number): void => {
      if (sent++ < times) loop.send(atMs, { promptTokens, answerTokens, onEnd: answer });
    };
    answer(startMs + client * BETWEEN_REQUESTS_MS);
  }
  loop.run();
}

interface Churn {
  readonly seconds: number;
  readonly clients: number;
  readonly seed: number;
}

interface Client {
  readonly random: () => number;
  hasLeft: boolean;
  sent?: SentRequest;
}

/** Clients whose number rises and falls four times and jumps now and then; they leave, some within an answer. */
export function runChurn(loop: SimulatedLoop, { seconds, clients: most, seed }: Churn): void {
  const durationMs = seconds * 1000;
  const clients = new Set<Client>();
  const random = randomNumbers(seed);
  let arrivals = 0;
  let jump = 0;
  const answer = (client: Client, atMs: number): void => {
    if (client.hasLeft) return;
    const answerTokens = SHORTEST_ANSWER + Math.floor(-Math.log(1 - client.random()) * MEAN_ANSWER);
    const onEnd = (endMs: number): void => {
      client.hasLeft ||= client.random() < LEAVING;
      if (client.hasLeft) clients.delete(client);
      else answer(client, endMs + client.random() * LONGEST_PAUSE_MS);
    };
    client.sent = loop.send(atMs, { promptTokens: SHORT_PROMPT, answerTokens, onEnd });
  };
  const leave = (client: Client): void => {
    clients.delete(client);
    client.hasLeft = true;
    if (client.sent !== undefined) loop.cancel(client.sent);
  };
  const look = (atMs: number): void => {
    const [jumps, isHome, far] = [random(), random(), random()];
    if (jumps < JUMPING) jump = isHome < 0.5 ? 0 : most * (far - 0.5);
    const wave = (1 - Math.cos((2 * Math.PI * WAVES * atMs) / durationMs)) / 2;
    const wanted = atMs < durationMs ? Math.max(1, Math.min(most, Math.round(1 + wave * (most - 1) + jump))) : 0;
    for (let index = 0; clients.size < wanted; index++) {
      const client: Client = { random: randomNumbers(seed * 1000 + ++arrivals), hasLeft: false };
      clients.add(client);
      answer(client, atMs + index * BETWEEN_REQUESTS_MS);
    }
    for (const client of [...clients].slice(wanted)) leave(client);
    if (wanted > 0) loop.at(atMs + LOOK_MS, () => look(atMs + LOOK_MS));
  };
  loop.at(0, () => look(0));
  loop.run();
}

/** As the benchmarks draw them. */
function randomNumbers(seed: number): () => number {
  let state = (seed * 7919) >>> 0;
  const draw = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  draw();
  return draw;
}
