// /v1/completions, /v1/embeddings, /tokenize and /detokenize over real HTTP, with fakes behind them.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ServingError } from "../../src/errors.js";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { eventsOf, startServer, type TestServer } from "../../src/server/testing/test-server.js";

const FULL = new ServingError("SERVING_QUEUE_FULL", "[queue] full", { details: { retryAfterMs: 1 } });

let served: TestServer;
beforeAll(async () => {
  served = await startServer();
});
afterAll(() => served[Symbol.asyncDispose]());
beforeEach(() => {
  served.model.script = { answer: (prompt, choice) => ` after ${prompt}, ${choice}` };
  served.model.requests.length = 0;
  served.grammar.specs.length = 0;
});

interface Choice {
  readonly index: number;
  readonly text: string;
  readonly finish_reason: string | null;
}

describe("/v1/completions", () => {
  const PATH = "/v1/completions";

  test("answers a prompt, with sixteen tokens where nothing is said", async () => {
    const { json } = await served.post(PATH, { model: "fake", prompt: "Once upon a time in a land" });
    expect(json).toMatchObject({
      object: "text_completion",
      choices: [{ index: 0, text: " after Once upon", finish_reason: "length", logprobs: null }],
      usage: { prompt_tokens: 27, completion_tokens: 16, total_tokens: 43 },
    });
  });

  test("answers several prompts with several texts each, in order", async () => {
    const { json } = await served.post(PATH, { prompt: ["a", "b"], n: 2, max_tokens: 50 });
    expect(json.choices.map(({ index, text }: Choice) => [index, text])).toEqual([
      [0, " after a, 0"],
      [1, " after a, 1"],
      [2, " after b, 0"],
      [3, " after b, 1"],
    ]);
    expect(json.usage).toMatchObject({
      prompt_tokens: 4,
      completion_tokens: 44,
      prompt_tokens_details: { cached_tokens: 4 },
    });
  });

  test("streams several prompts", async () => {
    const { text } = await served.post(PATH, {
      prompt: ["a", "b"],
      n: 2,
      max_tokens: 50,
      stream: true,
      stream_options: { include_usage: true },
    });
    const events = eventsOf(text);
    const texts = ["", "", "", ""];
    for (const { choices } of events) for (const choice of choices as Choice[]) texts[choice.index] += choice.text;
    expect(texts).toEqual([" after a, 0", " after a, 1", " after b, 0", " after b, 1"]);
    expect(events.filter(({ choices }) => choices[0]?.finish_reason === "stop")).toHaveLength(4);
    expect(events.at(-1).usage).toMatchObject({ completion_tokens: 44 });
  });

  test("takes tokens as they are", async () => {
    await served.post(PATH, { prompt: [104, 105] });
    expect([...(served.model.requests.at(-1)?.prompt ?? [])]).toEqual([104, 105]);
    await served.post(PATH, { prompt: [[104], [105, 106]] });
    expect(served.model.requests.slice(-2).map(({ prompt }) => [...prompt])).toEqual([[104], [105, 106]]);
  });

  test("echoes the prompt, as text and as tokens, whole and streamed", async () => {
    served.model.script.answer = () => "!";
    for (const prompt of ["hi", [104, 105]]) {
      expect((await served.post(PATH, { prompt, echo: true })).json.choices[0].text).toBe("hi!");
      const events = eventsOf((await served.post(PATH, { prompt, echo: true, stream: true })).text);
      expect(events.map(({ choices }) => choices[0].text).join("")).toBe("hi!");
    }
    served.model.script.answer = () => "";
    const silent = eventsOf((await served.post(PATH, { prompt: "hi", echo: true, stream: true })).text);
    expect(silent.map(({ choices }) => choices[0].text).join("")).toBe("hi");
  });

  test("gives log-probabilities in the older form, whole and streamed", async () => {
    served.model.script.answer = () => "abc";
    const { json } = await served.post(PATH, { prompt: "x", logprobs: 1 });
    const { logprobs } = json.choices[0];
    expect(logprobs).toEqual({
      tokens: ["a", "b", "c"],
      token_logprobs: [-0.5, -0.5, -0.5],
      top_logprobs: [{ a: -0.5 }, { b: -0.5 }, { c: -0.5 }],
      text_offset: [0, 1, 2],
    });
    const events = eventsOf((await served.post(PATH, { prompt: "x", logprobs: 1, stream: true })).text);
    expect(events.flatMap(({ choices }) => choices[0].logprobs?.text_offset ?? [])).toEqual([0, 1, 2]);
  });

  test("ends each text where it ends, with the prompt's echo before", async () => {
    served.model.script.answer = (_, choice) => (choice === 0 ? "" : "long");
    const events = eventsOf((await served.post(PATH, { prompt: "hi", n: 2, echo: true, stream: true })).text).map(
      ({ choices }) => choices[0] as Choice,
    );
    expect(events.slice(0, 2)).toMatchObject([
      { index: 0, text: "hi", finish_reason: null },
      { index: 0, text: "", finish_reason: "stop" },
    ]);
    expect(events.at(-1)).toMatchObject({ index: 1, finish_reason: "stop" });
  });

  test("shares the limits of an answer among its prompts", async () => {
    await using small = await startServer({ limits: { logprobEntries: 24, timeLimitMs: 10_000 } });
    const { json } = await small.post(PATH, { prompt: ["a", "b"], logprobs: 1, n: 2 });
    expect(json.choices.map(({ logprobs }: { logprobs: { tokens: unknown[] } }) => logprobs.tokens.length)).toEqual([
      3, 3, 3, 3,
    ]);
    small.model.script = { answer: () => "!", beforeDelta: () => new Promise((resolve) => setTimeout(resolve, 20)) };
    small.model.requests.length = 0;
    await small.post(PATH, { prompt: Array.from({ length: 9 }, () => "a") });
    const limits = small.model.requests.map(({ timeLimitMs }) => timeLimitMs as number);
    expect(limits[0]).toBeLessThanOrEqual(10_000);
    expect(limits[8]).toBeLessThan(limits[0] as number);
  });

  test("waits for room in the queue once its first prompt has some", async () => {
    let submissions = 0;
    served.model.script.refuse = () => (++submissions === 2 || submissions === 4 ? FULL : undefined);
    const { status, json } = await served.post(PATH, { prompt: ["a", "b", "c"], max_tokens: 50, regex: "[a-z]" });
    expect([status, submissions]).toEqual([200, 5]);
    expect(json.choices.map(({ text }: Choice) => text)).toEqual([" after a, 0", " after b, 0", " after c, 0"]);
    expect(served.grammar.open).toBe(0);
    served.model.script.refuse = () => FULL;
    expect((await served.post(PATH, { prompt: ["a", "b", "c"] })).status).toBe(429);
  });

  test("waits for room until its time is up, whatever a refusal guesses", async () => {
    await using hasty = await startServer({ limits: { timeLimitMs: 300 } });
    let submissions = 0;
    const later = new ServingError("SERVING_QUEUE_FULL", "[queue] full", { details: { retryAfterMs: 60_000 } });
    hasty.model.script.refuse = () => (++submissions === 2 ? later : undefined);
    const { status, json } = await hasty.post(PATH, { prompt: ["a", "b"] });
    expect([status, submissions, json.choices.map(({ text }: Choice) => text)]).toEqual([
      200,
      3,
      ["Hello there", "Hello there"],
    ]);
  });

  test("does not wait past its time, nor write twice", async () => {
    await using hasty = await startServer({ limits: { timeLimitMs: 1000 } });
    let submissions = 0;
    const later = new ServingError("SERVING_QUEUE_FULL", "[queue] full", { details: { retryAfterMs: 60_000 } });
    hasty.model.script.refuse = () => (++submissions > 1 ? later : undefined);
    expect((await hasty.post(PATH, { prompt: ["a", "b"] })).status).toBe(429);
    hasty.model.script = {
      beforeDelta: async (index, { prompt }) => {
        if (index === 2 && prompt[1] === "b".charCodeAt(0)) throw FULL;
      },
    };
    const { text } = await hasty.post(PATH, { prompt: ["a", "b"], stream: true });
    expect(eventsOf(text).at(-1)).toMatchObject({ error: { code: "rate_limit_exceeded" } });
  });

  test("holds each prompt to the grammar on its own", async () => {
    await served.post(PATH, { prompt: ["a", "b"], regex: "[a-z]" });
    const [first, second] = served.model.requests.map(({ constraint }) => constraint);
    expect(first).toBeDefined();
    expect(second).toBeDefined();
    expect(first).not.toBe(second);
    expect(served.grammar.specs).toHaveLength(1);
    expect(served.grammar.open).toBe(0);
  });

  test("one prompt that fails ends the others", async () => {
    served.model.script.beforeDelta = async (index, { prompt }) => {
      if (prompt[1] === "b".charCodeAt(0)) throw new Error("broken");
      if (index > 0) await new Promise(() => {});
    };
    const { status } = await served.post(PATH, { prompt: ["a", "b", "a"] });
    expect(status).toBe(500);
    expect(served.model.running).toBe(0);
  });

  test.each([
    ["no prompt", {}, "prompt"],
    ["an empty list", { prompt: [] }, "prompt"],
    ["an empty list in a list", { prompt: [[]] }, "prompt"],
    ["a mixed list", { prompt: ["a", 1] }, "prompt"],
    ["negative tokens", { prompt: [-1] }, "prompt"],
    ["tokens that are not there", { prompt: [258] }, "prompt"],
    ["fractions of tokens", { prompt: [1.5] }, "prompt"],
    ["too many prompts", { prompt: Array.from({ length: 129 }, () => "a") }, "prompt"],
    ["a suffix", { prompt: "a", suffix: "b" }, "suffix"],
    ["another best_of", { prompt: "a", best_of: 3 }, "best_of"],
    ["echo with log-probabilities", { prompt: "a", echo: true, logprobs: 1 }, "echo"],
    ["logprobs that are true", { prompt: "a", logprobs: true }, "logprobs"],
    ["too much text", { prompt: "a".repeat(2 ** 20 + 1) }, "prompt"],
  ])("rejects %s", async (_, body, param) => {
    const { status, json } = await served.post(PATH, body);
    expect([status, json.error.param]).toEqual([400, param]);
    expect(served.model.requests).toEqual([]);
  });

  test("best_of that is n passes", async () => {
    expect((await served.post(PATH, { prompt: "a", best_of: 2, n: 2, suffix: "" })).status).toBe(200);
  });
});

describe("/v1/embeddings", () => {
  const PATH = "/v1/embeddings";

  test("gives numbers, or their bytes in base64", async () => {
    const { json } = await served.post(PATH, { input: ["a", "bc"], model: "fake" });
    expect(json).toMatchObject({ object: "list", model: "fake", usage: { prompt_tokens: 5, total_tokens: 5 } });
    expect(json.data[1]).toEqual({ object: "embedding", index: 1, embedding: [3 / 2 ** 20, 0.5, -0.25] });
    const encoded = await served.post(PATH, { input: "a", encoding_format: "base64" });
    const bytes = Buffer.from(encoded.json.data[0].embedding, "base64");
    expect([0, 4, 8].map((at) => bytes.readFloatLE(at))).toEqual([2 / 2 ** 20, 0.5, -0.25]);
  });

  test("takes tokens, one list or many", async () => {
    expect((await served.post(PATH, { input: [1, 2, 3] })).json.data).toHaveLength(1);
    expect((await served.post(PATH, { input: [[1], [2, 3]] })).json.data).toHaveLength(2);
  });

  test("keeps the order of many inputs", async () => {
    const { json } = await served.post(PATH, { input: Array.from({ length: 40 }, (_, length) => "x".repeat(length)) });
    expect(json.data.map(({ embedding }: { embedding: number[] }) => embedding[0] as number)).toEqual(
      Array.from({ length: 40 }, (_, length) => (length + 1) / 2 ** 20),
    );
  });

  test.each([
    ["no input", {}, "input"],
    ["an empty list", { input: [] }, "input"],
    ["other dimensions", { input: "a", dimensions: 5 }, "dimensions"],
    ["another encoding", { input: "a", encoding_format: "hex" }, "encoding_format"],
    ["tokens that are not there", { input: [999] }, "input"],
  ])("rejects %s", async (_, body, param) => {
    const { status, json } = await served.post(PATH, body);
    expect([status, json.error.param]).toEqual([400, param]);
  });

  test("rejects an input that is too long", async () => {
    const { status, json } = await served.post(PATH, { input: "x".repeat(5000) });
    expect([status, json.error.code, json.error.param]).toEqual([400, "context_length_exceeded", "input"]);
  });

  test("takes an input that fills the context; a completion's prompt leaves room for a token", async () => {
    await using small = await startServer({}, [new FakeModel("small", 8)]);
    const ask = (path: string, field: string, length: number) =>
      small.post(path, { model: "small", [field]: Array.from({ length }, () => 1) });
    expect((await ask(PATH, "input", 8)).status).toBe(200);
    expect((await ask(PATH, "input", 9)).status).toBe(400);
    expect((await ask("/v1/completions", "prompt", 7)).status).toBe(200);
    expect((await ask("/v1/completions", "prompt", 8)).json.error).toMatchObject({
      code: "context_length_exceeded",
      param: "prompt",
    });
  });

  test("waits for room in the queue once its first input has some", async () => {
    let submissions = 0;
    const vector = Float32Array.of(1);
    served.model.script.embed = async () => {
      if (++submissions === 2) throw FULL;
      return vector;
    };
    expect((await served.post(PATH, { input: ["a", "b", "c"] })).json.data).toHaveLength(3);
    expect(submissions).toBe(4);
    served.model.script.embed = () => Promise.reject(FULL);
    expect((await served.post(PATH, { input: ["a", "b"] })).status).toBe(429);
  });

  test("gives up when its time is up", async () => {
    await using hasty = await startServer({ limits: { timeLimitMs: 20 } });
    hasty.model.script.embed = () => new Promise(() => {});
    const { status, json, headers } = await hasty.post(PATH, { input: ["a", "b"] });
    expect([status, json.error.code, headers.get("retry-after")]).toEqual([503, "time_limit_exceeded", "10"]);
  });

  test("the model's own dimensions pass", async () => {
    expect((await served.post(PATH, { input: "a", dimensions: 3 })).status).toBe(200);
  });
});

describe("/tokenize and /detokenize", () => {
  test("go there and back", async () => {
    const { json } = await served.post("/tokenize", { content: "hi", with_pieces: true });
    expect(json).toEqual({
      model: "fake",
      count: 3,
      context_length: 4096,
      tokens: [256, 104, 105],
      pieces: ["<s>", "h", "i"],
    });
    expect((await served.post("/tokenize", { content: "hi", add_special: false })).json.tokens).toEqual([104, 105]);
    expect((await served.post("/detokenize", { tokens: json.tokens })).json.content).toBe("hi");
    expect((await served.post("/detokenize", { tokens: json.tokens, special: true })).json.content).toBe("<s>hi");
    expect((await served.post("/detokenize", { tokens: [] })).json.content).toBe("");
  });

  test.each([
    ["/tokenize", {}, "content"],
    ["/tokenize", { content: 5 }, "content"],
    ["/detokenize", { tokens: "a" }, "tokens"],
    ["/detokenize", { tokens: [-1] }, "tokens"],
    ["/detokenize", { tokens: [300] }, "tokens"],
  ])("%s rejects %j", async (path, body, param) => {
    const { status, json } = await served.post(path, body);
    expect([status, json.error.param]).toEqual([400, param]);
  });
});
