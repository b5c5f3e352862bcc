// A constraint and its thread, which a stand-in plays here: what it is told, and when.

import { expect, test } from "vitest";
import { Grammar } from "./grammar.js";
import type { FollowedText, GrammarWorker } from "./grammar-worker.js";

/** Says of every token that it may follow. */
class OpenWorker {
  texts = 0;
  readonly closed: number[] = [];
  answer: () => void = () => {};

  close(text: number): void {
    this.closed.push(text);
  }

  async advance(_grammar: number, _source: unknown, text: FollowedText): Promise<object> {
    await new Promise<void>((resolve) => {
      this.answer = resolve;
    });
    text.mask?.fill(0xffffffff);
    return { tookMs: 0, path: [] };
  }
}

const grammarIn = (worker: OpenWorker): Grammar =>
  new Grammar({
    id: 0,
    spec: { kind: "json" },
    chooseWorker: () => worker as unknown as GrammarWorker,
    slowWorker: () => worker as unknown as GrammarWorker,
    maskWords: 1,
    nextText: () => 7,
  });

test("a text that was sent again after its end is closed again", async () => {
  const worker = new OpenWorker();
  const constraint = grammarIn(worker).constraint();
  const waiting = constraint.allowed().catch((error: unknown) => error);
  constraint[Symbol.dispose]();
  expect(worker.closed).toEqual([7]);
  worker.answer();
  await waiting;
  expect(worker.closed).toEqual([7, 7]);
});

/** Answers at once, and says how long it took. */
class TimedWorker {
  texts = 0;
  readonly tookMs: number;

  constructor(tookMs: number) {
    this.tookMs = tookMs;
  }

  close(): void {}

  async advance(): Promise<object> {
    return { tookMs: this.tookMs, path: [] };
  }
}

test("texts with slow masks move to a worker of their own, and no more of them than it can serve", async () => {
  const [quick, slow] = [new TimedWorker(50), new TimedWorker(50)];
  let texts = 0;
  const grammar = new Grammar({
    id: 0,
    spec: { kind: "json" },
    chooseWorker: () => quick as unknown as GrammarWorker,
    slowWorker: () => slow as unknown as GrammarWorker,
    maskWords: 1,
    nextText: () => texts++,
  });
  const constraints = Array.from({ length: 9 }, () => grammar.constraint());
  for (const constraint of constraints) constraint.accept(1);
  const outcomes = await Promise.allSettled(constraints.map((constraint) => constraint.allowed()));
  expect(outcomes.map(({ status }) => status)).toEqual([...Array.from({ length: 8 }, () => "fulfilled"), "rejected"]);
  expect(outcomes[8]).toMatchObject({ reason: { code: "GRAMMAR_LIMIT", details: { limit: "slowTexts" } } });
  expect([quick.texts, slow.texts]).toEqual([1, 8]);
  for (const constraint of constraints) constraint[Symbol.dispose]();
  expect([quick.texts, slow.texts]).toEqual([0, 0]);
});
