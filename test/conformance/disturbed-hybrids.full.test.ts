// Models with recurrent layers in deterministic mode, with drafts that are partly wrong, scarce blocks and state slots,
// several choices, stop strings and clients that leave: every text is the one of an undisturbed engine without drafts, as
// far as it was read, and every block and slot comes back.

import { setTimeout as pause } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { readChatTemplates } from "../../src/chat/template/chat-templates.js";
import { Engine } from "../../src/engine/engine.js";
import { readModelSampling } from "../../src/engine/model-sampling.js";
import { openPlan } from "../../src/engine/open-plan.js";
import type { CompletionRequest, TokenLogprob } from "../../src/engine/serving.js";
import type { ServingOptions } from "../../src/engine/serving-options.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { Speculation } from "../../src/speculation/speculation.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { familyModel } from "./models/family-model.js";
import { familyCase } from "./models/family-shapes.js";
import { EAGER, KnownTextDrafter } from "./speculation-texts.js";
import { BEST_SUBJECT, describeCpu } from "./subjects.js";

const FAMILIES = ["qwen35", "qwen3next", "nemotron_h", "granitehybrid", "falcon-h1", "mamba2", "lfm2", "lfm2moe"];
const SHAPES = 3;
const ROUNDS = 2;
const CONTEXT = 192;
const VOCABULARY = 250;

const SCARCE: readonly ServingOptions[] = [
  { kvCacheTokens: 208, maxSequences: 4, stateCacheSlots: 1 },
  { kvCacheTokens: 320, maxSequences: 6, stateCacheSlots: 9 },
  { kvCacheTokens: 2048, maxSequences: 8, stateCacheSlots: 60 },
];

const SAMPLINGS: readonly NonNullable<CompletionRequest["sampling"]>[] = [
  { temperature: 0 },
  { temperature: 0.9, topK: 12 },
  { temperature: 0, repeatPenalty: 1.3, penaltyTokens: 16 },
  { temperature: 1, mirostat: 2 },
  { temperature: 0.8, dryMultiplier: 0.8, dryAllowedLength: 1, dryPenaltyTokens: -1 },
];

/** A request, and how its client behaves. */
interface Client {
  readonly request: CompletionRequest;
  readonly delayMs: number;
  /** Leaves after it has read more tokens than this. */
  readonly leavesAfter: number;
}

interface Answer {
  readonly tokens: readonly (readonly number[])[];
  readonly reasons: readonly string[];
  readonly logprobs: readonly TokenLogprob[];
}

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

function clientsOf(dice: Dice): readonly Client[] {
  const tokens = (count: number): number[] => Array.from({ length: count }, () => dice.below(VOCABULARY));
  const system = tokens(40);
  return Array.from({ length: 14 }, (_, index) => ({
    request: {
      prompt: Int32Array.from([...system.slice(0, dice.below(40)), ...tokens(3 + dice.below(70))]),
      maxTokens: 1 + dice.below(70),
      choices: index % 4 === 1 ? 3 : 1,
      ignoreEndOfGeneration: true,
      sampling: { ...dice.pick(SAMPLINGS), seed: index },
      ...(index % 5 === 0 ? { topLogprobs: 2 } : {}),
      ...(index % 3 === 0 ? { stop: [String.fromCodePoint(97 + index), "e"] } : {}),
    },
    delayMs: dice.below(30),
    leavesAfter: index % 3 === 2 ? dice.below(30) : Number.POSITIVE_INFINITY,
  }));
}

async function answer(engine: Engine, { request, leavesAfter }: Client): Promise<Answer> {
  const leaving = new AbortController();
  const completion = engine.complete({ ...request, signal: leaving.signal });
  const tokens = Array.from({ length: request.choices ?? 1 }, (): number[] => []);
  const logprobs: TokenLogprob[] = [];
  for await (const delta of completion) {
    tokens[delta.choice].push(...delta.tokens);
    logprobs.push(...delta.logprobs);
    if (tokens.flat().length > leavesAfter) leaving.abort();
  }
  const { choices } = await completion.summary;
  return { tokens, reasons: choices.map(({ reason }) => reason), logprobs };
}

async function withEngine<Result>(
  path: string,
  drafts: Speculation | undefined,
  serving: ServingOptions | undefined,
  use: (engine: Engine) => Promise<Result>,
): Promise<Result> {
  await using backend = BEST_SUBJECT.create({ deterministic: true });
  const { loader, plan } = await openPlan(path, backend, { contextTokens: CONTEXT });
  await using _ = loader;
  const { metadata } = loader.file;
  const tokenizer = createTokenizer(metadata);
  const parts = {
    name: "disturbed",
    plan,
    hasVocabulary: true,
    tokenizer: () => tokenizer,
    chatTemplates: () => readChatTemplates(metadata),
    readHeader: () => loader.file.readHeader(),
    sampling: readModelSampling(metadata),
    growsKvCache: serving === undefined,
    drafting: drafts ?? ({ draft: "off" } as const),
  };
  await using engine = new Engine(parts, serving);
  return await use(engine);
}

/** An answer that was cut off is the beginning of the expected one. */
function expectAsFarAsRead(found: Answer, expected: Answer): void {
  for (const [choice, tokens] of found.tokens.entries()) {
    const isCut = found.reasons[choice] === "abort";
    expect(tokens).toEqual(isCut ? expected.tokens[choice].slice(0, tokens.length) : expected.tokens[choice]);
    if (!isCut) expect(found.reasons[choice]).toBe(expected.reasons[choice]);
  }
  if (found.tokens.length === 1) expect(found.logprobs).toEqual(expected.logprobs.slice(0, found.logprobs.length));
}

function heldBy(engine: Engine) {
  const { blocks, freeBlocks, cachedBlocks, stateSlots, freeStateSlots, checkpoints } = engine.statistics();
  return { blocks: blocks - freeBlocks - cachedBlocks, slots: stateSlots - freeStateSlots - checkpoints };
}

const CASES = FAMILIES.flatMap((family) => Array.from({ length: SHAPES }, (_, number) => ({ family, number })));

describeCpu("disturbed sequences with drafts", () => {
  it.each(CASES)("$family, shape $number", async ({ family, number }) => {
    const { seed, shape } = familyCase(family, number);
    const path = folder.file(`${family}-${number}.gguf`);
    await writeGguf(path, familyModel(seed, { ...shape, predictingLayers: 0, context: 512 }));
    const clients = clientsOf(new Dice(seed));
    const expected = await withEngine(path, undefined, undefined, (engine) =>
      Promise.all(clients.map((client) => answer(engine, { ...client, leavesAfter: Number.POSITIVE_INFINITY }))),
    );
    const texts = clients.flatMap(({ request }, index) =>
      expected[index].tokens.map((tokens) => [...request.prompt, ...tokens]),
    );
    for (const serving of SCARCE) {
      const drafts = new Speculation({ textDrafter: () => new KnownTextDrafter(texts), policy: EAGER });
      await withEngine(path, drafts, serving, async (engine) => {
        for (let round = 0; round < ROUNDS; round++) {
          const found = await Promise.all(
            clients.map(async (client) => {
              await pause(client.delayMs);
              return await answer(engine, client);
            }),
          );
          for (const [index, each] of found.entries()) expectAsFarAsRead(each, expected[index]);
        }
        // A client that left may have been in a step.
        await expect.poll(() => heldBy(engine)).toEqual({ blocks: 0, slots: 0 });
      });
      expect(drafts.acceptedTokens).toBeGreaterThan(0);
    }
  });
});
