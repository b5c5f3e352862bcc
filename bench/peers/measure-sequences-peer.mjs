// Several sequences of node-llama-cpp at once, in its own process: `node measure-sequences-peer.mjs JSON` prints one
// JSON object. Its own scheduler batches them; raw tokens, greedy, a given number of threads.

import { loadPeerModel } from "./load-model.mjs";

const BATCH_TOKENS = 512;

const { modelPath, threads, flashAttention, prompts, count } = JSON.parse(process.argv[2]);
const model = await loadPeerModel({ modelPath, threads });
const contextSize = Math.max(...prompts.map(({ length }) => length)) + count + 2;
const context = await model.createContext({
  contextSize,
  sequences: prompts.length,
  batchSize: BATCH_TOKENS,
  threads,
  flashAttention,
});
const sequences = prompts.map(() => context.getSequence());

let begun = 0;
let startMs = 0;

/** The clock starts when every sequence has generated a token. */
async function write(sequence, prompt) {
  let written = 0;
  let counted = 0;
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (written === 0 && ++begun === prompts.length) startMs = performance.now();
    else if (startMs > 0) counted++;
    if (++written === count) return counted;
  }
  throw new Error(`the peer ended after ${written} tokens`);
}

const counted = await Promise.all(sequences.map((sequence, index) => write(sequence, prompts[index])));
const tokens = counted.reduce((sum, each) => sum + each, 0);
console.log(JSON.stringify({ tokensPerSecond: (tokens * 1000) / (performance.now() - startMs) }));
process.exit(0);
