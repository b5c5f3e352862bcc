import { describe, expect, it } from "vitest";
import { checkPrompt, type RequestLimits, resolveRequest } from "./completion-request.js";
import type { CompletionRequest } from "./serving.js";

const LIMITS: RequestLimits = { vocabularySize: 100, contextTokens: 64, sequences: 4 };
const PROMPT = Int32Array.of(1, 2, 3);

describe("resolveRequest", () => {
  it("fills in what was left out: as many tokens as there is room for, one choice, no log-probabilities", () => {
    expect(resolveRequest({ prompt: PROMPT }, LIMITS)).toMatchObject({
      maxTokens: 61,
      choices: 1,
      topLogprobs: undefined,
      priority: 0,
      stop: [],
    });
  });

  it("lets an answer end with the context", () => {
    expect(resolveRequest({ prompt: PROMPT, maxTokens: 1e9 }, LIMITS).maxTokens).toBe(61);
    expect(resolveRequest({ prompt: PROMPT, maxTokens: 60 }, LIMITS).maxTokens).toBe(60);
  });

  it.each([
    [{ prompt: new Int32Array() }, "SERVING_REQUEST"],
    [{ prompt: [1, 2] }, "OPTION_VALUE"],
    [{ prompt: Int32Array.of(100) }, "TOKENIZER_TOKEN"],
    [{ prompt: Int32Array.of(-1) }, "TOKENIZER_TOKEN"],
    [{ prompt: new Int32Array(64) }, "CONTEXT_OVERFLOW"],
    [{ maxTokens: 0 }, "OPTION_VALUE"],
    [{ choices: 5 }, "OPTION_VALUE"],
    [{ topLogprobs: 21 }, "OPTION_VALUE"],
    [{ stop: [""] }, "OPTION_VALUE"],
    [{ stop: Array(65).fill("x") }, "OPTION_VALUE"],
    [{ stop: ["x".repeat(70_000)] }, "OPTION_VALUE"],
    [{ timeLimitMs: -1 }, "OPTION_VALUE"],
    [{ priority: 0.5 }, "OPTION_VALUE"],
    [{ priority: 101 }, "OPTION_VALUE"],
    [{ signal: "now" }, "OPTION_VALUE"],
    [{ max_tokens: 3 }, "OPTION_UNKNOWN"],
  ])("rejects %j with %s", (fields, code) => {
    expect(() => resolveRequest({ prompt: PROMPT, ...fields } as CompletionRequest, LIMITS)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  it("needs no room for an answer where none is wanted", () => {
    expect(() => checkPrompt(new Int32Array(64), LIMITS, 0)).not.toThrow();
    expect(() => checkPrompt(new Int32Array(65), LIMITS, 0)).toThrow(
      expect.objectContaining({ code: "CONTEXT_OVERFLOW" }),
    );
  });
});
