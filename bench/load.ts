// Many clients of one server over HTTP: `npm run bench -- load FILE [backend] [clients] [prompt] [answer] [rounds]`. Every
// client streams one completion after the other, each with a prompt of its own that shares nothing with the others. A
// server that is ready is given all of them at once. Figures: tokens written per second over the whole time, first
// tokens, gaps between tokens, the server's processor time.

import { becameReady, processorMs, startServer } from "./server-process.js";
import { Histogram, randomPrompt, streamCompletion } from "./streaming-clients.js";

const DEFAULTS = { clients: 64, prompt: 700, answer: 256, rounds: 3 };
const CONTEXT_TOKENS = 8192;

export async function run([
  path,
  backend = "auto",
  clients = String(DEFAULTS.clients),
  prompt = String(DEFAULTS.prompt),
  answer = String(DEFAULTS.answer),
  rounds = String(DEFAULTS.rounds),
  ...args
]: readonly string[]): Promise<void> {
  if (path === undefined) throw new TypeError("load: expected a model file");
  const folder = process.cwd();
  await using server = await startServer({ folder, path, backend, contextTokens: CONTEXT_TOKENS, args });
  const { readyMs } = await becameReady(server);
  console.log(`load: ${path}, ${backend}: ${clients} clients, prompts of ${prompt}, answers of ${answer} tokens`);
  console.log(`  ready after ${readyMs.toFixed(0)} ms`);
  // The first burst of a server, then clients that come back as soon as they have their answer.
  for (const times of [1, Number(rounds)]) {
    const usedMs = processorMs(server) ?? 0;
    const load = { clients: Number(clients), prompt: Number(prompt), answer: Number(answer), times };
    const result = await runClients(server.port, load);
    const seconds = result.milliseconds / 1000;
    const processor = ((processorMs(server) ?? 0) - usedMs) / 1000;
    console.log(
      `  ${times} each: ${(result.tokens / seconds).toFixed(0)} tokens/s written, ${((result.tokens / Number(answer)) * (Number(prompt) / seconds)).toFixed(0)} tokens/s of prompts, ${seconds.toFixed(2)} s, processor ${processor.toFixed(2)} s`,
    );
    console.log(`    first token ${result.first}`);
    console.log(`    gaps ${result.gaps}`);
  }
}

interface Load {
  readonly clients: number;
  readonly prompt: number;
  readonly answer: number;
  /** Completions of each client. */
  readonly times: number;
}

async function runClients(port: number, { clients, prompt, answer, times }: Load) {
  const [first, gaps] = [new Histogram(), new Histogram()];
  let tokens = 0;
  const startMs = performance.now();
  const seed = Math.floor(startMs) * 1000;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let time = 0; time < times; time++) {
        const sentMs = performance.now();
        let lastMs: number | undefined;
        const onEvents = (atMs: number): void => {
          if (lastMs === undefined) first.add(atMs - sentMs);
          else gaps.add(atMs - lastMs);
          lastMs = atMs;
        };
        const prompted = randomPrompt(seed + client * times + time, prompt);
        const written = await streamCompletion({ port, prompt: prompted, tokens: answer, onEvents });
        tokens += written ?? 0;
      }
    }),
  );
  return { first, gaps, tokens, milliseconds: performance.now() - startMs };
}
