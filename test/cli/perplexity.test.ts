// `rocmforge perplexity`: windows, the scored half, and numbers that agree with each other and with llama.cpp.

import { writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { loadModel, type PerplexityProgress } from "../../src/index.js";
import { heldOutExcerpt } from "../support/held-out-excerpt.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, rocmforge, SMALL_MODEL } from "./command-line.js";

const TEXT = heldOutExcerpt().slice(0, 300);
const perplexity = (...args: readonly string[]): readonly string[] => [
  "perplexity",
  "-m",
  SMALL_MODEL,
  "-f",
  "-",
  ...args,
];

describe("perplexity", () => {
  it("scores the second half of each whole window, BOS in place of its first token", async () => {
    const finished = await rocmforge(perplexity("--ctx", "32", "--json"), { input: TEXT });
    expect(finished.status).toBe(0);
    const result = JSON.parse(finished.stdout) as Omit<PerplexityProgress, "window">;
    await using model = await loadModel(SMALL_MODEL);
    const tokens = model.tokenize(TEXT);
    const windows = Math.floor(tokens.length / 32);
    expect(windows).toBeGreaterThan(1);
    expect(Object.keys(result).toSorted()).toEqual([
      "meanNll",
      "perplexity",
      "scoredTokens",
      "tokens",
      "windowTokens",
      "windows",
    ]);
    expect(result).toMatchObject({ tokens: tokens.length, windowTokens: 32, windows, scoredTokens: windows * 15 });

    let nll = 0;
    for (let window = 0; window < windows; window++) {
      const ids = tokens.slice(window * 32, window * 32 + 32);
      if (model.tokenizer.addsBos) ids[0] = model.tokenizer.bosToken ?? ids[0];
      const logits = await model.logits(ids);
      for (let row = 16; row < 31; row++) {
        const scores = logits.subarray(row * model.vocabularySize, (row + 1) * model.vocabularySize);
        nll += Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0)) - scores[ids[row + 1]];
      }
    }
    expect(result.meanNll).toBeCloseTo(nll / (windows * 15), 4);
    expect(result.perplexity).toBeCloseTo(Math.exp(result.meanNll), 6);
  });

  it("shows the result as text", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("text.txt"), TEXT.slice(0, 120));
    const finished = await rocmforge([
      "perplexity",
      "-m",
      SMALL_MODEL,
      "--file",
      folder.file("text.txt"),
      "--ctx",
      "16",
    ]);
    expect(finished).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(
        /^perplexity \d+\.\d{4} \(mean .*\)\n[\d,]+ tokens scored in \d windows of 16 tokens; .*\n$/,
      ) as string,
    });
    expect(complaints(finished)).toBe("");
  });

  it("rejects a text shorter than a window, with the numbers", async () => {
    const finished = await rocmforge(perplexity("--ctx", "64"), { input: "short" });
    expect(finished).toMatchObject({ status: 1, stdout: "" });
    expect(complaints(finished)).toMatch(/^rocmforge: .*one window of 64 tokens.*\n$/);
  });

  it("rejects a missing text", async () => {
    const finished = await rocmforge(["perplexity", "-m", SMALL_MODEL, "-f", "nothing-here.txt"]);
    expect(finished).toMatchObject({ status: 1, stdout: "", stderr: expect.stringMatching(/^rocmforge: /) as string });
  });
});
