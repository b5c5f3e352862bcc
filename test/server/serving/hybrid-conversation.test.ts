// Conversations with a model with recurrent layers, through HTTP: each turn computes what is new, whether the template
// keeps the thoughts of earlier turns or drops them, and an edited message goes back to the checkpoint before it.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CHECKPOINT_TOKENS } from "../../../src/scheduler/checkpoint-positions.js";
import { HYBRID_CHAT, MARKS, writeHybridModel } from "../../support/hybrid-model.js";
import { thinkingTemplate } from "../../support/thinking-template.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { Conversation } from "./hybrid-conversation.js";
import { accountOf, IDLE, startServer } from "./running-server.js";
import { readMetrics } from "./soak.js";

const TURNS = 20;
const CONTEXT = 4096;
/** Computed beyond what is new, at most. */
const MOST_PART = 1.1;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const modelOf = (keepsThoughts: boolean): string => (keepsThoughts ? "keeping" : "dropping");

beforeAll(async () => {
  for (const keepsThoughts of [true, false]) {
    const template = thinkingTemplate(MARKS, keepsThoughts);
    await writeHybridModel(folder.file(`${modelOf(keepsThoughts)}.gguf`), { context: CONTEXT, template });
  }
});

describe.each([
  { backend: "reference", keepsThoughts: true },
  { backend: "cpu", keepsThoughts: true },
  { backend: "cpu", keepsThoughts: false },
] as const)(
  "on $backend, a template that keeps the thoughts of earlier turns: $keepsThoughts",
  ({ backend, keepsThoughts }) => {
    test(`computes what is new in each of ${TURNS} turns, and goes back for an edited one`, async () => {
      const name = modelOf(keepsThoughts);
      await using server = await startServer({
        models: [{ name, path: folder.file(`${name}.gguf`) }],
        model: { backend },
      });
      const talk = new Conversation({ ...HYBRID_CHAT, url: server.url, model: name, keepsThoughts });
      for (let turn = 1; turn <= TURNS; turn++) {
        const { newTokens, computedTokens, promptTokens } = await talk.say(
          `message ${turn} ${"of words ".repeat(turn % 5)}`,
        );
        if (turn === 1) expect([newTokens, computedTokens]).toEqual([promptTokens, promptTokens]);
        else expect(computedTokens).toBeLessThanOrEqual(MOST_PART * newTokens);
      }
      const edited = await talk.edit(2, "another message");
      expect(edited.newTokens).toBeLessThan(edited.promptTokens / 2);
      expect(edited.computedTokens).toBeLessThanOrEqual(MOST_PART * edited.newTokens + CHECKPOINT_TOKENS);
      // Much less than a checkpoint distance here, because turns have checkpoints of their own.
      expect(edited.computedTokens).toBeLessThanOrEqual(MOST_PART * edited.newTokens + 120);
      const metrics = await readMetrics(server.url);
      expect(metrics.of("rocmforge_checkpoints")).toBeGreaterThan(TURNS);
      expect(metrics.of("rocmforge_state_slots_free") + metrics.of("rocmforge_checkpoints")).toBe(
        metrics.of("rocmforge_state_slots"),
      );
      expect(await accountOf(server.url)).toEqual(IDLE);
    });
  },
);
