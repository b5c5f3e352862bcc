// A constraint and its thread, which a stand-in plays here: what it is told, and when.

import { expect, test } from "vitest";
import { Grammar } from "./grammar.js";
import type { AskedText, GrammarHome } from "./grammar-home.js";

/** Says of every token that it may follow. */
class OpenHome {
  texts = 0;
  readonly closed: number[] = [];
  answer: () => void = () => {};

  close(text: number): void {
    this.closed.push(text);
  }

  async advance(_grammar: number, _source: unknown, text: AskedText): Promise<void> {
    await new Promise<void>((resolve) => {
      this.answer = resolve;
    });
    text.mask.fill(0xffffffff);
  }
}

const grammarIn = (home: OpenHome, tail: readonly number[]): Grammar =>
  new Grammar({
    id: 0,
    source: { text: "", lengthLimits: [] },
    chooseHome: () => home as unknown as GrammarHome,
    forced: { head: [], tail },
    maskWords: 1,
    endTokens: [1, 5],
    nextText: () => 7,
  });

test("a text that was taught again after its end is closed again", async () => {
  const home = new OpenHome();
  const constraint = grammarIn(home, []).constraint();
  const waiting = constraint.allowed().catch((error: unknown) => error);
  constraint[Symbol.dispose]();
  expect(home.closed).toEqual([7]);
  home.answer();
  await waiting;
  expect(home.closed).toEqual([7, 7]);
});

test("where a text may end, the tail comes before each of the tokens that end it", async () => {
  const home = new OpenHome();
  using constraint = grammarIn(home, [9]).constraint();
  const waiting = constraint.allowed();
  home.answer();
  const mask = (await waiting)[0] as number;
  expect([1, 5, 9].map((token) => (mask >>> token) & 1)).toEqual([0, 0, 1]);
});
