import { describe, expect, it } from "vitest";
import { NgramDrafter } from "./ngram-drafter.js";

function draftAfter(tokens: readonly number[], most = 4): number[] | undefined {
  const drafted = new NgramDrafter().draft(Int32Array.from(tokens), most);
  return drafted === undefined ? undefined : [...drafted.tokens];
}

/** Drafts before each token of a text from `from` on; returns how many tokens the first draft tokens got right. */
function follow(text: readonly number[], from: number): number {
  const drafter = new NgramDrafter();
  let right = 0;
  for (let length = from; length < text.length; length++)
    if (drafter.draft(Int32Array.from(text.slice(0, length)), 3)?.tokens[0] === text[length]) right++;
  return right;
}

describe("NgramDrafter", () => {
  it("proposes what followed the last tokens before", () => {
    expect(draftAfter([1, 2, 3, 4, 5, 6, 9, 2, 3])).toEqual([4, 5, 6, 9]);
  });

  it("proposes nothing if the last two tokens are new together", () => {
    expect(draftAfter([1, 2, 3, 4, 1, 3])).toBeUndefined();
    expect(draftAfter([7])).toBeUndefined();
    expect(draftAfter([])).toBeUndefined();
  });

  it("prefers the longest match, and of equal ones the most recent", () => {
    expect(draftAfter([1, 2, 3, 10, 8, 2, 3, 11, 9, 1, 2, 3], 1)).toEqual([10]);
    expect(draftAfter([5, 2, 3, 10, 8, 2, 3, 11, 9, 2, 3], 1)).toEqual([11]);
  });

  it("goes on with its own draft where the text ends", () => {
    expect(draftAfter([4, 7, 4, 7, 4], 6)).toEqual([7, 4, 7, 4, 7, 4]);
    expect(draftAfter([3, 3, 3], 3)).toEqual([3, 3, 3]);
  });

  it("follows a repeated passage through parts that are ambiguous", () => {
    const passage = Array.from({ length: 200 }, (_, index) => (index % 10 < 6 ? index % 10 : index));
    const right = follow([...passage, 900, 901, ...passage], passage.length + 2);
    expect(right).toBeGreaterThan(190);
  });

  it("finds its place again after a change", () => {
    const file = Array.from({ length: 300 }, (_, index) => index);
    const changed = [...file.slice(0, 150), 999, ...file.slice(151)];
    expect(follow([...file, ...changed], file.length)).toBeGreaterThanOrEqual(294);
  });

  it("reports how sure it is: the longer the match, the surer", () => {
    const confidences = [2, 3, 5, 20].map((length) => {
      const part = Array.from({ length }, (_, index) => 100 + index);
      const drafter = new NgramDrafter();
      const text = [...part, 1, 2, ...part];
      let last;
      // Token by token from the repetition on, as a text is written.
      for (let end = part.length + 4; end <= text.length; end++)
        last = drafter.draft(Int32Array.from(text.slice(0, end)), 1);
      return last?.confidence;
    });
    expect(confidences).toEqual([0, 1, 2, 3]);
  });

  it("indexes long prompts over several calls, and keeps a bounded table", () => {
    const drafter = new NgramDrafter();
    const text = Int32Array.from({ length: 120_000 }, (_, index) => (index * 7919) % 50_021);
    text.copyWithin(text.length - 3, 110_000, 110_003);
    expect(drafter.draft(text, 2)).toBeUndefined();
    let found;
    for (let call = 0; call < 20; call++) found = drafter.draft(text, 2);
    expect([...(found?.tokens ?? [])]).toEqual([text[110_003], text[110_004]]);
  });
});
