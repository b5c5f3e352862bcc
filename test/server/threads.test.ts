// The threads behind chats and grammars, as the server has them: a burst is no fault of anybody's request, and what was
// kept for a model goes with it.

import { afterAll, describe, expect, test } from "vitest";
import { TemplateRunner } from "../../src/chat/template/template-runner.js";
import type { ModelEngine } from "../../src/engine/serving.js";
import { GrammarWorker } from "../../src/grammar/worker/grammar-worker.js";
import { packVocabulary } from "../../src/grammar/automaton/packed-vocabulary.js";
import { GrammarCompilers } from "../../src/completion/grammar-compilers.js";
import { toRequestError } from "../../src/server/http/request-error.js";
import { FakeModel, fakeTokenizer } from "../../src/server/testing/fake-model.js";

/** What a client is told of each that failed. */
function refusals(results: readonly PromiseSettledResult<unknown>[]): readonly object[] {
  return results.flatMap((result) => (result.status === "rejected" ? [toRequestError(result.reason)] : []));
}

const TRY_AGAIN = { status: 429, code: "rate_limit_exceeded", retryAfterSeconds: 1 };

test("of a burst of chats, those that find no room are refused with a time to retry", async () => {
  await using runner = new TemplateRunner({ threads: 1 });
  const chats = Array.from({ length: 260 }, (_, number) => runner.render("{{ number }}", { number }));
  const refused = refusals(await Promise.allSettled(chats));
  // One is being rendered, 256 may wait.
  expect(refused).toHaveLength(3);
  for (const refusal of refused) expect(refusal).toMatchObject(TRY_AGAIN);
});

test("of a burst of grammars, likewise", async () => {
  const limits = { compileMs: 60_000, maskDeadlineMs: 60_000, pathMs: 60_000 };
  const worker = new GrammarWorker(await packVocabulary(fakeTokenizer, fakeTokenizer.vocabularySize), limits);
  const compilations = Array.from({ length: 8196 }, (_, id) => worker.compile(id, { kind: "regex", pattern: "a" }));
  const settled = Promise.allSettled(compilations);
  // The last ones are refused at once; the others are of no interest.
  const refused = refusals(await Promise.allSettled(compilations.slice(-3)));
  await worker[Symbol.asyncDispose]();
  await settled;
  expect(refused).toHaveLength(3);
  for (const refusal of refused) expect(refusal).toMatchObject(TRY_AGAIN);
});

describe("grammars of models", () => {
  const threads = new GrammarCompilers();
  afterAll(() => threads[Symbol.asyncDispose]());
  const { signal } = new AbortController();

  async function allows(model: ModelEngine, text: string): Promise<boolean> {
    using constraint = await threads.constraint(model, { kind: "regex", pattern: "a" }, signal);
    const mask = await constraint.allowed();
    const token = text.charCodeAt(0);
    return mask === undefined || ((mask[token >> 5] ?? 0) & (1 << (token & 31))) !== 0;
  }

  test("are disposed with their model, and created again when it is loaded again", async () => {
    const [one, other] = [
      new FakeModel("one"),
      Object.assign(new FakeModel("other"), { tokenizer: { ...fakeTokenizer } }),
    ];
    expect([await allows(one, "a"), await allows(one, "b"), await allows(other, "a")]).toEqual([true, false, true]);
    expect(threads.models).toBe(2);
    threads.forget(one);
    threads.forget(one);
    expect(threads.models).toBe(1);
    // A chat of the lost one may still be on its way.
    const refused = refusals(
      await Promise.allSettled([threads.constraint(one, { kind: "regex", pattern: "a" }, signal)]),
    );
    expect([refused, threads.models]).toMatchObject([[{ status: 503, code: "device_lost" }], 1]);
    expect([await allows(other, "a"), await allows(new FakeModel("one"), "a")]).toEqual([true, true]);
    expect(threads.models).toBe(2);
  });
});
