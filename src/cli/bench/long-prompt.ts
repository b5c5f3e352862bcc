// A text prompt of a given length for a process that is started as a user would start it. Its meaning does not matter.

import type { Tokenizer } from "../../index.js";

/** A text and its number of tokens. */
export interface LongPrompt {
  readonly text: string;
  /** The tokenizer's count, including BOS and EOS. */
  readonly tokens: number;
}

const WORDS = "Once upon a time there was a cab and a bad bed".split(" ");

/** The shortest repetition of some words that has at least `count` tokens. */
export function longPrompt(tokenizer: Pick<Tokenizer, "encode">, count: number): LongPrompt {
  const prompt = (words: number): LongPrompt => {
    const text = Array.from({ length: words }, (_, index) => WORDS[index % WORDS.length]).join(" ");
    return { text, tokens: tokenizer.encode(text).length };
  };
  // A word has at least one token.
  let [tooFew, enough] = [0, Math.max(1, count)];
  while (enough - tooFew > 1) {
    const middle = Math.floor((tooFew + enough) / 2);
    if (prompt(middle).tokens >= count) enough = middle;
    else tooFew = middle;
  }
  return prompt(enough);
}
