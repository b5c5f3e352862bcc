// Requests that disturb one another: drafts that are partly wrong, scarce blocks and state slots, several choices, stop
// strings and clients that leave. Whatever happens, every text is the one of an undisturbed engine without drafts, as far
// as it was read, and every block and slot comes back.

import { setTimeout as pause } from "node:timers/promises";
import { expect } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { readChatTemplates } from "../../src/chat/template/chat-templates.js";
import { Engine } from "../../src/engine/engine.js";
import { readModelSampling } from "../../src/engine/model-sampling.js";
import { openPlan } from "../../src/engine/open-plan.js";
import type { CompletionRequest, TokenLogprob } from "../../src/engine/serving.js";
import type { ServingOptions } from "../../src/engine/serving-options.js";
import type { TextDrafter } from "../../src/speculation/drafter.js";
import { Speculation } from "../../src/speculation/speculation.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { Dice } from "../support/dice.js";
import { EAGER } from "./speculation-texts.js";

/** Longest text of an engine here. */
const CONTEXT = 192;
const VOCABULARY = 250;

/** Engines in which blocks and state slots are scarce, and one in which they are not. */
const SCARCE: readonly ServingOptions[] = [
  { kvCacheTokens: 208, maxSequences: 4, stateCacheSlots: 1 },
  { kvCacheTokens: 320, maxSequences: 6, stateCacheSlots: 9 },
  { kvCacheTokens: 2048, maxSequences: 8, stateCacheSlots: 60 },
];

type Sampling = NonNullable<CompletionRequest["sampling"]>;

const SAMPLINGS: readonly Sampling[] = [
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

/** The model of a test, and how its backend is made, which has to be deterministic. */
export interface DisturbedModel {
  readonly path: string;
  readonly seed: number;
  readonly create: () => Backend;
  /** Makes the drafter of each text; the texts with their prompts are known. */
  readonly drafterOf: (texts: readonly (readonly number[])[]) => TextDrafter;
  readonly rounds: number;
  /** How clients sample; in all kinds of ways by default. */
  readonly samplings?: readonly Sampling[];
  /** Counts the steps that were queued before the previous one had ended. */
  readonly early?: { steps: number };
}

function clientsOf({ seed, samplings = SAMPLINGS }: DisturbedModel): readonly Client[] {
  const dice = new Dice(seed);
  const tokens = (count: number): number[] => Array.from({ length: count }, () => dice.below(VOCABULARY));
  const system = tokens(40);
  return Array.from({ length: 14 }, (_, index) => ({
    request: {
      prompt: Int32Array.from([...system.slice(0, dice.below(40)), ...tokens(3 + dice.below(70))]),
      maxTokens: 1 + dice.below(70),
      choices: index % 4 === 1 ? 3 : 1,
      ignoreEndOfGeneration: true,
      sampling: { ...dice.pick(samplings), seed: index },
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

/** Steps of the engine that were given before the previous one had ended are counted in `early`. */
async function withEngine<Result>(
  { path, create, early }: DisturbedModel,
  drafting: Speculation | "off",
  serving: ServingOptions | undefined,
  use: (engine: Engine) => Promise<Result>,
): Promise<Result> {
  await using backend = create();
  const { loader, plan } = await openPlan(path, backend, { contextTokens: CONTEXT });
  await using _ = loader;
  const { metadata } = loader.file;
  const tokenizer = createTokenizer(metadata);
  const { step } = plan;
  plan.step = (input, ...rest) => {
    if (early !== undefined && input.previousOutputs !== undefined) early.steps++;
    return step.call(plan, input, ...rest);
  };
  const parts = {
    name: "disturbed",
    plan,
    hasVocabulary: true,
    tokenizer: () => tokenizer,
    chatTemplates: () => readChatTemplates(metadata),
    readHeader: () => loader.file.readHeader(),
    sampling: readModelSampling(metadata),
    growsKvCache: serving === undefined,
    drafting: drafting === "off" ? ({ draft: "off" } as const) : drafting,
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

/** Every text, of all engines and rounds, has to be the undisturbed one. */
export async function expectUndisturbedTexts(model: DisturbedModel): Promise<void> {
  const clients = clientsOf(model);
  const expected = await withEngine({ ...model, early: { steps: 0 } }, "off", undefined, (engine) =>
    Promise.all(clients.map((client) => answer(engine, { ...client, leavesAfter: Number.POSITIVE_INFINITY }))),
  );
  const texts = clients.flatMap(({ request }, index) =>
    expected[index].tokens.map((tokens) => [...request.prompt, ...tokens]),
  );
  for (const serving of SCARCE) {
    const drafts = new Speculation({ textDrafter: () => model.drafterOf(texts), policy: EAGER });
    await withEngine(model, drafts, serving, async (engine) => {
      for (let round = 0; round < model.rounds; round++) {
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
    // Steps that are queued early may take the slots that drafts need, if those are scarce.
    if (model.early === undefined || serving === SCARCE.at(-1)) expect(drafts.acceptedTokens).toBeGreaterThan(0);
  }
}
