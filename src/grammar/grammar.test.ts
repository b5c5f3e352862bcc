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

  async advance(_grammar: number, _source: unknown, text: AskedText): Promise<number> {
    await new Promise<void>((resolve) => {
      this.answer = resolve;
    });
    text.mask?.fill(0xffffffff);
    return 0;
  }
}

const grammarIn = (home: OpenHome): Grammar =>
  new Grammar({
    id: 0,
    spec: { kind: "json" },
    chooseHome: () => home as unknown as GrammarHome,
    slowHome: () => home as unknown as GrammarHome,
    maskWords: 1,
    nextText: () => 7,
  });

test("a text that was taught again after its end is closed again", async () => {
  const home = new OpenHome();
  const constraint = grammarIn(home).constraint();
  const waiting = constraint.allowed().catch((error: unknown) => error);
  constraint[Symbol.dispose]();
  expect(home.closed).toEqual([7]);
  home.answer();
  await waiting;
  expect(home.closed).toEqual([7, 7]);
});
