// The AI SDK's own functions on models of this process, with the real `ai` package. It needs Node 22, which
// test/server/clients has beside the package: one process runs all scenarios of sdk-session.mjs.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { embeddedModelPath } from "../../../src/index.js";
import { writeModel } from "../../server/clients/session.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { sdkNode, sdkUnavailableReason } from "./sdk-node.js";

const REASONING_PARTS = ["reasoning-start", "reasoning-delta", "reasoning-end"];
const TEXT_PARTS = ["text-start", "text-delta", "text-end"];
const CALL_PARTS = ["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-result"];

/** The SDK's form of token counts. */
interface SdkUsage {
  readonly inputTokens: number;
  readonly inputTokenDetails: { readonly noCacheTokens: number; readonly cacheReadTokens: number };
  readonly outputTokens: number;
  readonly outputTokenDetails: { readonly textTokens: number; readonly reasoningTokens: number };
}

interface Outcome {
  readonly usage: SdkUsage;
  readonly first: SdkUsage;
  readonly second: SdkUsage;
  readonly elements: readonly string[];
  readonly same: number;
  readonly other: number;
}

const skipped = sdkUnavailableReason === undefined ? "" : ` (skipped: ${sdkUnavailableReason})`;

describe.skipIf(sdkUnavailableReason !== undefined)(`the AI SDK${skipped}`, () => {
  const folder = new TemporaryFolder();
  let outcomes: Readonly<Record<string, Outcome>>;
  beforeAll(async () => {
    const script = fileURLToPath(new URL("sdk-session.mjs", import.meta.url));
    const args = [script, await writeModel(folder), embeddedModelPath()];
    const { stdout, stderr } = await promisify(execFile)(sdkNode, args, { maxBuffer: 2 ** 24 });
    if (stderr !== "") throw new Error(stderr);
    outcomes = JSON.parse(stdout) as typeof outcomes;
  }, 600_000);
  afterAll(() => folder[Symbol.dispose]());

  test("generateText: text, reasoning, usage, and what the engine adds", () => {
    const { generateText } = outcomes;
    expect(generateText).toMatchObject({
      text: "The fox.",
      reasoning: ["I look."],
      finish: "stop",
      raw: ["stop"],
      warnings: [],
      modelId: "scripted",
      id: expect.stringMatching(/^rocmforge-[\da-f-]{36}$/) as string,
      dated: true,
      metadata: { seed: expect.any(Number) as number, timings: { queuedMs: expect.any(Number) as number } },
    });
    const { usage } = generateText;
    expect(usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(2);
    expect(usage.outputTokenDetails.textTokens).toBe(usage.outputTokens - usage.outputTokenDetails.reasoningTokens);
    expect(usage.inputTokenDetails).toEqual({ noCacheTokens: usage.inputTokens, cacheReadTokens: 0 });
  });

  test("streamText: the same reply in parts, and a warning about a setting without effect", () => {
    const { streamText } = outcomes;
    expect(streamText).toMatchObject({
      types: ["start", "start-step", ...REASONING_PARTS, ...TEXT_PARTS, "finish-step", "finish"],
      text: "The fox.",
      reasoning: ["I look."],
      finish: "stop",
      warnings: [{ type: "unsupported", feature: "includeRawChunks" }],
    });
    expect(streamText.usage.outputTokenDetails).toEqual(outcomes["generateText"].usage.outputTokenDetails);
  });

  test("tools in several steps: the second prompt has the reasoning, the call and its result", () => {
    const expected = {
      text: "It rains.",
      reasoning: ["I look.", "I know."],
      results: ["It rains in Oslo."],
      finish: "stop",
      raw: ["tool-calls", "stop"],
    };
    expect(outcomes["tools"]).toMatchObject(expected);
    const [first, second] = [
      ["start-step", ...REASONING_PARTS, ...TEXT_PARTS, ...CALL_PARTS, "finish-step"],
      ["start-step", ...REASONING_PARTS, ...TEXT_PARTS, "finish-step"],
    ];
    expect(outcomes["streamedTools"]).toMatchObject({ ...expected, types: ["start", ...first, ...second, "finish"] });
  });

  test("a second turn reads the first one's prompt from the cache", () => {
    const { first, second } = outcomes["secondTurn"];
    expect(outcomes["secondTurn"]).toMatchObject({ text: "Reynard." });
    expect(first.inputTokenDetails.cacheReadTokens).toBe(0);
    // Whole blocks of the KV cache.
    expect(second.inputTokenDetails.cacheReadTokens).toBeGreaterThan(first.inputTokens / 2);
    expect(second.inputTokenDetails.noCacheTokens).toBe(second.inputTokens - second.inputTokenDetails.cacheReadTokens);
  });

  test("a text file is read, and an image refused with the SDK's own error", () => {
    expect(outcomes["textFile"]).toMatchObject({ text: "Red and blue." });
    expect(outcomes["image"]).toMatchObject({
      isInstance: true,
      code: "SERVING_REQUEST",
      message: expect.stringMatching(/^\[prompt\[0\]\.content\[1\]\] .* found image\/png files/) as string,
    });
  });

  test("Output.object with a Zod schema, arrays, choices and JSON of any form, from a model that knows no JSON", () => {
    expect(outcomes["object"]).toMatchObject({ fits: true, finishReason: "stop" });
    expect(outcomes["streamedArray"].elements.length).toBeGreaterThan(0);
    for (const element of outcomes["streamedArray"].elements) expect(["fox", "king"]).toContain(element);
    expect(["fox", "king"]).toContain(outcomes["choice"]);
    expect(outcomes["json"]).toEqual({ hero: ["fox", 7] });
  });

  test("a tool that is demanded is called with an input that satisfies its schema", () => {
    expect(outcomes["demandedTool"]).toEqual({
      demanded: [{ toolName: "weather", fits: true }],
      required: true,
      finish: "tool-calls",
    });
  });

  test("embedMany: a list longer than one call takes", () => {
    const { same, other } = outcomes["embedMany"];
    expect(outcomes["embedMany"]).toMatchObject({ count: 2050, dimensions: 256, tokens: 10_250 });
    expect(same).toBeCloseTo(1, 6);
    expect(other).toBeLessThan(0.999);
  });

  test("an abort ends text, stream and embeddings at once, and nothing goes on running", () => {
    for (const name of ["abortedText", "abortedEmbedding"])
      expect([name, outcomes[name]]).toMatchObject([name, { name: "AbortError", running: 0 }]);
    expect(outcomes["abortedStream"]).toEqual({
      types: ["start", "start-step", "text-start", "text-delta", "abort"],
      running: 0,
    });
  });

  test("rejects a prompt that exceeds the context, whole and streamed", () => {
    const overflow = { name: "ContextError", code: "CONTEXT_OVERFLOW" };
    expect(outcomes["overlong"]).toMatchObject({ whole: overflow, errors: [overflow] });
  });

  test("rejects an unknown name with the SDK's own error, and a missing file when it is needed", () => {
    expect(outcomes["unknown"]).toMatchObject({ isInstance: true, modelType: "languageModel" });
    expect(outcomes["missingFile"]).toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  test("the provider in a registry of providers", () => {
    expect(outcomes["registry"]).toBe("The fox.");
  });

  test("a tool that another provider would run is left out with a warning", () => {
    expect(outcomes["warnings"]).toMatchObject([
      { type: "unsupported", feature: "provider-defined tool other.search" },
    ]);
  });

  test("disposing the provider disposes what it loaded and nothing else", () => {
    expect(outcomes["disposed"]).toMatchObject({ code: "DISPOSED" });
    expect(outcomes["stillOpen"]).toBe("The fox.");
  });
});
