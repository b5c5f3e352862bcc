// One measurement of node-llama-cpp in its own process: `node measure-peer.mjs JSON` prints one JSON object. Only
// evaluation is timed, through its leanest calls: raw tokens, greedy, f16 KV cache, a given number of threads. A depth
// is evaluated once and stored in a state file, so that later runs start from the same cache.

import { existsSync } from "node:fs";
import { loadPeerModel } from "./load-model.mjs";

const WARM_UP_TOKENS = 64;
const WARM_UP_STEPS = 4;
const BATCH_TOKENS = 512;
/** Every vocabulary has at least this many ordinary tokens; which ones are used does not matter for speed. */
const ORDINARY_TOKENS = 30_000;
const TOKEN_STRIDE = 7919;

const { modelPath, threads, flashAttention, promptTokens, decodeTokens, depth, statePath } = JSON.parse(
  process.argv[2],
);

const tokensAt = (from, to) =>
  Array.from({ length: to - from }, (_, index) => ((from + index) * TOKEN_STRIDE) % ORDINARY_TOKENS);

const model = await loadPeerModel({ modelPath, threads });
const contextSize = Math.max(promptTokens, depth + decodeTokens, WARM_UP_TOKENS) + WARM_UP_STEPS + 2;
const context = await model.createContext({ contextSize, batchSize: BATCH_TOKENS, threads, flashAttention });
const sequence = context.getSequence();

/** The decode speed in tokens per second, without the first token. */
async function decode(position, count) {
  let start = 0;
  let written = 0;
  for await (const _ of sequence.evaluate(tokensAt(position, position + 1), { temperature: 0, yieldEogToken: true })) {
    if (written === 0) start = performance.now();
    if (written++ === count) return (count * 1000) / (performance.now() - start);
  }
  throw new Error(`the peer ended after ${written} tokens`);
}

async function prefill(count) {
  const start = performance.now();
  await sequence.evaluateWithoutGeneratingNewTokens(tokensAt(0, count));
  return (count * 1000) / (performance.now() - start);
}

async function fill() {
  if (existsSync(statePath)) {
    await sequence.loadStateFromFile(statePath, { acceptRisk: true });
    return;
  }
  await prefill(depth);
  await sequence.saveStateToFile(statePath);
}

await prefill(WARM_UP_TOKENS);
await decode(WARM_UP_TOKENS, WARM_UP_STEPS);
const result = {};
if (promptTokens > 0) {
  await sequence.clearHistory();
  result.prefill = await prefill(promptTokens);
}
if (decodeTokens > 0) {
  await sequence.clearHistory();
  if (depth > 0) await fill();
  result.decode = await decode(depth, decodeTokens);
}
// The engine would keep the process alive.
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
