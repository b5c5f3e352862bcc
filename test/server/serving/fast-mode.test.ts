// Fast mode (not deterministic) on the CPU: the order of sums may depend on batch-mates, and the log-probabilities of a text
// stay within the drift that golden data allows this backend, whatever else is in the step.

import { expect, it } from "vitest";
import type { Engine } from "../../../src/engine/engine.js";
import { openModel } from "../../../src/model/load-model.js";
import type { TokenLogprob } from "../../../src/engine/serving.js";
import { loadModel, type Model } from "../../../src/index.js";
import { describeCpu } from "../../conformance/subjects.js";
import { logProbabilities } from "../../conformance/models/log-probabilities.js";
import { EMBEDDED } from "./running-server.js";
import { readPacked } from "../../support/packed-json.js";

const GOLDEN = new URL("../../fixtures/golden/fable-10m-Q4_K_M.json.br", import.meta.url);
/** The rule of test/conformance/golden/golden-cpu.test.ts: no further from exact than so many times what llama.cpp is, or the floor. */
const DRIFT_RATIO = 1.25;
const DRIFT_FLOOR = 0.003;
const TOGETHER = 16;
const TOKENS = 48;

interface GoldenCase {
  readonly tokens: readonly number[];
  readonly exact: {
    readonly positions: readonly {
      readonly next?: number;
      readonly top: readonly (readonly [token: number, logprob: number])[];
    }[];
  };
  readonly asComputed: { readonly next: readonly number[] };
}

const { window: golden } = (readPacked(GOLDEN) as { readonly cases: { readonly window: GoldenCase } }).cases;
const mean = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0) / values.length;
const theirs = golden.asComputed.next.map((value, index) =>
  Math.abs(value - (golden.exact.positions[index].next ?? Number.NaN)),
);
const ALLOWED = Math.max(DRIFT_FLOOR, DRIFT_RATIO * mean(theirs));

async function write(
  engine: Engine,
  prompt: readonly number[],
  maxTokens: number,
  seed: number,
): Promise<readonly TokenLogprob[]> {
  const written: TokenLogprob[] = [];
  const request = {
    prompt: Int32Array.from(prompt),
    maxTokens,
    topLogprobs: 20,
    ignoreEndOfGeneration: true,
    sampling: { temperature: 1, seed },
  };
  for await (const { logprobs } of engine.complete(request)) written.push(...logprobs);
  return written;
}

/** Of each written token after the prompt, teacher-forced in one go and alone. */
async function aloneLogprobs(
  model: Model,
  prompt: readonly number[],
  written: readonly TokenLogprob[],
): Promise<readonly number[]> {
  const width = model.vocabularySize;
  const logs = logProbabilities(await model.logits([...prompt, ...written.map(({ token }) => token)]), width);
  return written.map(({ token }, index) => logs[(prompt.length - 1 + index) * width + token]);
}

describeCpu("fast mode on the CPU", () => {
  it.each([true, false])(
    `gives ${TOGETHER} together the log-probabilities that each text has alone (prefixes shared: %s)`,
    async (sharesPrefixes) => {
      await using alone = await loadModel(EMBEDDED, { backend: "cpu" });
      await using together = await openModel(EMBEDDED, { backend: "cpu" }, { serving: { sharesPrefixes } });
      // Of many lengths, some with a beginning in common, so that steps have rows of every kind.
      const prompts = Array.from({ length: TOGETHER }, (_, index) =>
        golden.tokens.slice(index % 2 === 0 ? 0 : index, 20 + 11 * index),
      );
      const texts = await Promise.all(prompts.map((prompt, index) => write(together.engine, prompt, TOKENS, index)));
      const drifts: number[] = [];
      for (const [index, written] of texts.entries()) {
        expect(written).toHaveLength(TOKENS);
        const expected = await aloneLogprobs(alone, prompts[index], written);
        const drift = written.map(({ logprob }, place) => Math.abs(logprob - expected[place]));
        expect(mean(drift)).toBeLessThan(ALLOWED);
        drifts.push(...drift);
      }
      expect(mean(drifts)).toBeLessThan(DRIFT_FLOOR);
      expect(together.statistics().steps).toBeLessThan(TOGETHER * TOKENS);
    },
  );

  it("drifts from exact in a batch no further than the golden rule allows", async () => {
    await using model = await loadModel(EMBEDDED, { backend: "cpu" });
    const places = golden.tokens.flatMap((_, index) => (index % 7 === 3 ? [index] : []));
    const drifts = await Promise.all(
      places.map(async (place) => {
        const [{ top }] = await write(model.engine, golden.tokens.slice(0, place + 1), 1, place);
        const found = new Map(top.map(({ token, logprob }) => [token, logprob]));
        // The likeliest that both have: rank 20 of one is not far below rank 5 of the other.
        return mean(
          golden.exact.positions[place].top.map(([token, logprob]) =>
            Math.abs((found.get(token) ?? Number.NaN) - logprob),
          ),
        );
      }),
    );
    expect(drifts).toHaveLength(Math.ceil((golden.tokens.length - 3) / 7));
    expect(mean(drifts)).toBeLessThan(ALLOWED);
  });
});
