// Long texts, large bodies and large answers: what is done with them elsewhere, in turns, or not at all.

import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test, vi } from "vitest";
import { GgufFile } from "../../src/gguf/file.js";
import { FakeModel, fakeTokenizer } from "../../src/server/testing/fake-model.js";
import { startServer } from "../../src/server/testing/test-server.js";
import { createTokenizer } from "../../src/tokenizer/tokenizer.js";

describe("long texts", () => {
  const PATH = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
  const LONG = "Once upon a time there was a fox. ".repeat(1000);

  afterEach(() => {
    vi.restoreAllMocks();
  });

  test("are encoded and decoded in another thread", async () => {
    using file = await GgufFile.open(PATH, { mapping: "off" });
    const tokenizer = createTokenizer(file.metadata);
    await using served = await startServer();
    served.model.readHeader = () => file.readHeader();
    const own = [
      vi.spyOn(fakeTokenizer, "encode"),
      vi.spyOn(fakeTokenizer, "decode"),
      vi.spyOn(fakeTokenizer, "tokenBytes"),
    ];
    const tokens = [...tokenizer.encode(LONG)];
    const { json } = await served.post("/tokenize", { content: LONG, with_pieces: true });
    expect(json).toMatchObject({ model: "fake", count: tokens.length, context_length: 4096, tokens });
    expect(json.pieces.join("")).toContain(LONG);
    const ids = Array.from({ length: 3000 }, (_, index) => index % 258);
    expect((await served.post("/detokenize", { tokens: ids })).json).toEqual({
      model: "fake",
      content: tokenizer.decode(ids),
    });
    for (const spy of own) expect(spy).not.toHaveBeenCalled();
    // What is short is done at once.
    expect((await served.post("/tokenize", { content: "hi" })).json.tokens).toEqual([256, 104, 105]);
    expect(own[0]).toHaveBeenCalledTimes(1);
  });

  test("that no context has room for are refused before they are encoded", async () => {
    await using served = await startServer();
    const encode = vi.spyOn(fakeTokenizer, "encode");
    const content = "x".repeat(4 * 4096);
    for (const [path, body, param] of [
      ["/v1/completions", { prompt: ["a", content] }, "prompt"],
      ["/v1/embeddings", { input: `${content}x` }, "input"],
      ["/v1/chat/completions", { messages: [{ role: "user", content }] }, "messages"],
      ["/v1/responses", { input: content }, "input"],
    ] as const) {
      const { status, json } = await served.post(path, body);
      expect([status, json.error.code, json.error.param]).toEqual([400, "context_length_exceeded", param]);
    }
    expect(encode).not.toHaveBeenCalled();
    // Counting refuses nothing, and what the model wrote may be left out by its template.
    const counted = await served.post("/v1/messages/count_tokens", { messages: [{ role: "user", content }] });
    expect(counted.json.input_tokens).toBeGreaterThan(4 * 4096);
  });

  test("have limits of their own", async () => {
    await using served = await startServer({ limits: { tokenizeCharacters: 10, detokenizeTokens: 3 } });
    const statuses = await Promise.all([
      served.post("/tokenize", { content: "x".repeat(10) }),
      served.post("/tokenize", { content: "x".repeat(11) }),
      served.post("/tokenize", { content: "x".repeat(5000) }),
      served.post("/detokenize", { tokens: [1, 2, 3] }),
      served.post("/detokenize", { tokens: [1, 2, 3, 4] }),
    ]);
    expect(statuses.map(({ status, json }) => [status, json.error?.code])).toEqual([
      [200, undefined],
      [400, "invalid_value"],
      [413, "request_too_large"],
      [200, undefined],
      [400, "invalid_value"],
    ]);
  });
});

test("large bodies and large answers are what small ones are", async () => {
  await using served = await startServer({ limits: { promptTokens: 1e6 } }, [new FakeModel("large", 1_000_000)]);
  const text = `é"\\n${"word ".repeat(50_000)}`;
  const { json } = await served.post("/v1/completions", { model: "large", prompt: text, max_tokens: 1, echo: true });
  expect(json.choices[0].text).toBe(`${text}H`);
  const input = Array.from({ length: 100 }, (_, index) => `input ${index}`);
  served.model.script.embed = (tokens) => Float32Array.from({ length: 500 }, (_, index) => tokens.length + index);
  const answer = await served.post("/v1/embeddings", { model: "fake", input });
  expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(
    answer.json.data.map(({ embedding }: { readonly embedding: readonly number[] }) => [
      embedding.length,
      embedding[499],
    ]),
  ).toEqual(input.map(({ length }) => [500, length + 1 + 499]));
});
