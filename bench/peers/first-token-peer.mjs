// node-llama-cpp from process start to its first tokens, which it prints: `node first-token-peer.mjs JSON`. As lean as
// its own documentation suggests: load, a small context, tokenize, evaluate. A prompt that is not in the JSON is read
// from stdin.

import { readFileSync } from "node:fs";
import { loadPeerModel } from "./load-model.mjs";

const STDIN = 0;

const { modelPath, threads, flashAttention, contextTokens, prompt, count } = JSON.parse(process.argv[2]);
const model = await loadPeerModel({ modelPath, threads });
const context = await model.createContext({ contextSize: contextTokens, threads, flashAttention });
const text = prompt ?? readFileSync(STDIN, "utf8");
let written = 0;
for await (const token of context
  .getSequence()
  .evaluate(model.tokenize(text), { temperature: 0, yieldEogToken: true })) {
  process.stdout.write(`${model.detokenize([token])}\n`);
  if (++written === count) break;
}
process.exit(0);
