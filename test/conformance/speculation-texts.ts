// Texts with and without drafts, for tests that both are the same to the bit in deterministic mode: drafts from the text
// itself as users have them, and drafts that know the plain text and are wrong now and then, so that many are accepted.

import { expect } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { readChatTemplates } from "../../src/chat/template/chat-templates.js";
import { Engine } from "../../src/engine/engine.js";
import { readModelSampling } from "../../src/engine/model-sampling.js";
import { openPlan } from "../../src/engine/open-plan.js";
import type { CompletionRequest, TokenLogprob } from "../../src/engine/serving.js";
import type { DraftPolicy } from "../../src/speculation/draft-costs.js";
import type { TextDrafter } from "../../src/speculation/drafter.js";
import { NgramDrafter } from "../../src/speculation/ngram-drafter.js";
import { Speculation } from "../../src/speculation/speculation.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";
import { Dice } from "../support/dice.js";

/** Drafts as much as it may, whether that pays or not. */
export const EAGER: DraftPolicy = {
  measured: () => {},
  drafted: () => {},
  bestLength: (_acceptance, _sequences, most) => most,
};

export interface Comparison {
  readonly path: string;
  readonly backend: () => Backend;
  readonly requests: readonly CompletionRequest[];
  readonly contextTokens?: number;
}

interface Answer {
  readonly tokens: readonly (readonly number[])[];
  readonly logprobs: readonly TokenLogprob[];
  readonly reasons: readonly string[];
}

export interface DraftCounts {
  readonly generated: number;
  readonly drafted: number;
  readonly accepted: number;
}

/** Prompts of random tokens, some of which repeat themselves. */
export function promptsOf(count: number, vocabulary: number, seed = 1): Int32Array[] {
  const dice = new Dice(seed);
  return Array.from({ length: count }, (_, index) => {
    const part = Array.from({ length: 3 + dice.below(8) }, () => dice.below(vocabulary));
    return Int32Array.from(index % 2 === 0 ? part : [...part, ...part.slice(1), ...part]);
  });
}

/** Expects the same answers without drafts, with n-gram drafts and with drafts of the plain text; counts the drafts. */
export async function expectSameTexts(comparison: Comparison): Promise<DraftCounts> {
  const plain = await answers(comparison, undefined);
  const ngrams = new Speculation({ textDrafter: () => new NgramDrafter(), policy: EAGER });
  expect(await answers(comparison, ngrams)).toEqual(plain);
  const texts = comparison.requests.map(({ prompt }, index) => [...prompt, ...plain[index].tokens[0]]);
  const known = new Speculation({ textDrafter: () => new KnownTextDrafter(texts), policy: EAGER });
  expect(await answers(comparison, known)).toEqual(plain);
  return {
    generated: plain.reduce((sum, { tokens }) => sum + tokens.flat().length, 0),
    drafted: ngrams.draftedTokens + known.draftedTokens,
    accepted: ngrams.acceptedTokens + known.acceptedTokens,
  };
}

/** Expects the same answers without drafts and with these. */
export async function expectSameTextsWith(drafts: Speculation, comparison: Comparison): Promise<void> {
  const plain = await answers(comparison, undefined);
  expect(await answers(comparison, drafts)).toEqual(plain);
}

async function answers(
  { path, backend, requests, contextTokens = 256 }: Comparison,
  speculation: Speculation | undefined,
): Promise<Answer[]> {
  await using device = backend();
  const { loader, plan } = await openPlan(path, device, { contextTokens });
  await using _ = loader;
  const tokenizer = createTokenizer(loader.file.metadata);
  await using engine = new Engine({
    name: "test",
    plan,
    hasVocabulary: true,
    tokenizer: () => tokenizer,
    chatTemplates: () => readChatTemplates(loader.file.metadata),
    readHeader: () => loader.file.readHeader(),
    sampling: readModelSampling(loader.file.metadata),
    growsKvCache: true,
    drafting: speculation ?? { draft: "off" },
  });
  return await Promise.all(
    requests.map(async (request) => {
      const completion = engine.complete(request);
      const tokens = Array.from({ length: request.choices ?? 1 }, (): number[] => []);
      const logprobs: TokenLogprob[] = [];
      for await (const delta of completion) {
        tokens[delta.choice].push(...delta.tokens);
        logprobs.push(...delta.logprobs);
      }
      const { choices } = await completion.summary;
      return { tokens, logprobs, reasons: choices.map(({ reason }) => reason) };
    }),
  );
}

/** Drafts what a text is known to go on with, and every third time a wrong token in it. */
export class KnownTextDrafter implements TextDrafter {
  readonly firstAcceptance = [1];
  readonly #texts: readonly (readonly number[])[];
  #calls = 0;

  constructor(texts: readonly (readonly number[])[]) {
    this.#texts = texts;
  }

  draft(tokens: Int32Array, most: number) {
    const text = this.#texts.find((known) => tokens.every((token, index) => known[index] === token));
    const draft = Int32Array.from(
      text?.slice(tokens.length, tokens.length + Math.min(most, 1 + (this.#calls % 7))) ?? [],
    );
    if (draft.length === 0) return undefined;
    const wrong = ++this.#calls % draft.length;
    if (this.#calls % 3 === 0) draft[wrong] = draft[wrong] === 0 ? 1 : draft[wrong] - 1;
    return { tokens: draft, confidence: 0 };
  }
}
