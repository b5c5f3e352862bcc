// A prompt of some length for a process that is started as a user would start it, with text. What it says is no matter.

import type { Tokenizer } from "../../index.js";

export interface LongPrompt {
  readonly text: string;
  /** As the tokenizer counts them, with those it adds. */
  readonly tokens: number;
}

const WORDS = "Once upon a time there was a cab and a bad bed".split(" ");

/** The fewest words, in a circle, that are at least `count` tokens. */
export function longPrompt(tokenizer: Pick<Tokenizer, "encode">, count: number): LongPrompt {
  const prompt = (words: number): LongPrompt => {
    const text = Array.from({ length: words }, (_, index) => WORDS[index % WORDS.length]).join(" ");
    return { text, tokens: tokenizer.encode(text).length };
  };
  // No word is less than a token.
  let [tooFew, enough] = [0, Math.max(1, count)];
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2);
    if (prompt(middle).tokens >= count) enough = middle;
    else tooFew = middle;
  }
  return prompt(enough);
}
