// `node bench/peers/record.mjs`: records llama.cpp's answers for the random models of all families, and its tokens for texts in Gemma's
// manner and for every pre-tokenizer, in test/fixtures/peers.
// Needs `npm install --prefix bench/peers`; run it when the models or the peer's version change.

import { createViteServer } from "vitest/node";

const server = await createViteServer({
  configFile: false,
  logLevel: "error",
  // `using` is newer than Node 20.
  oxc: { target: "node20" },
  server: { middlewareMode: true, watch: null },
});
try {
  const { recordAnswers, recordFamilyAnswers } = await server.ssrLoadModule("/test/peers/record-answers.ts");
  console.log(`recorded the answers for ${await recordAnswers()} models`);
  console.log(`recorded the answers for ${await recordFamilyAnswers()} models of all families`);
  const { recordGemmaTokens } = await server.ssrLoadModule("/test/peers/record-gemma-tokens.ts");
  console.log(`recorded the tokens of ${await recordGemmaTokens()} texts`);
  const { recordPreTokenizers } = await server.ssrLoadModule("/test/peers/record-pre-tokenizers.ts");
  console.log(`recorded the ids of ${await recordPreTokenizers()} pre-tokenizers`);
} finally {
  await server.close();
}
// The peer's engine would keep the process alive.
process.exit(0);
