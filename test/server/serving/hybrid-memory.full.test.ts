// Five hundred conversations with a model with recurrent layers, through HTTP: the number of state slots does not change,
// old checkpoints are evicted, later turns still compute what is new, and memory stays where it was.

import { afterAll, beforeAll, expect, test } from "vitest";
import { collectGarbage } from "../../../src/worker/garbage.js";
import { HYBRID_CHAT, MARKS, writeHybridModel } from "../../support/hybrid-model.js";
import { thinkingTemplate } from "../../support/thinking-template.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { Conversation } from "./hybrid-conversation.js";
import { accountOf, IDLE, startServer } from "./running-server.js";
import { readMetrics } from "./soak.js";

const CONVERSATIONS = 500;
const TOGETHER = 4;
const TURNS = 3;
const MODEL = "hybrid";
/** Caches of rendered texts and compiled code may still grow a little. */
const MOST_GROWTH_BYTES = 8 * 2 ** 20;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  const path = folder.file("hybrid.gguf");
  await writeHybridModel(path, { context: 2048, template: thinkingTemplate(MARKS, false) });
  const serving = { maxSequences: TOGETHER, stateCacheSlots: 64 };
  server = await startServer({ models: [{ name: MODEL, path }], model: { backend: "reference" }, serving });
});
afterAll(() => server[Symbol.asyncDispose]());

/** What is in use in this process, which runs the server: its memory as a whole depends on when garbage is collected. */
function usedBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function converse(from: number): Promise<void> {
  const talks = Array.from(
    { length: TOGETHER },
    () => new Conversation({ ...HYBRID_CHAT, url: server.url, model: MODEL, keepsThoughts: false }),
  );
  for (let turn = 0; turn < TURNS; turn++) {
    const turns = await Promise.all(talks.map((talk, index) => talk.say(`say ${from + index} ${turn} in words`)));
    for (const { newTokens, computedTokens } of turns)
      if (turn > 0) expect(computedTokens).toBeLessThanOrEqual(1.1 * newTokens);
  }
}

test(`keeps memory flat over ${CONVERSATIONS} conversations`, async () => {
  const fifth = CONVERSATIONS / 5;
  const memory: number[] = [];
  for (let from = 0; from < CONVERSATIONS; from += TOGETHER) {
    await converse(from);
    if ((from + TOGETHER) % fifth === 0) memory.push(usedBytes());
  }
  const metrics = await readMetrics(server.url);
  expect(metrics.of("rocmforge_state_slots")).toBe(TOGETHER + 64);
  expect(metrics.of("rocmforge_checkpoints")).toBeLessThanOrEqual(TOGETHER + 64);
  expect(metrics.of("rocmforge_checkpoints_evicted")).toBeGreaterThan(CONVERSATIONS);
  expect(await accountOf(server.url)).toEqual(IDLE);
  expect(memory[4] - memory[1]).toBeLessThanOrEqual(MOST_GROWTH_BYTES);
});
