// Ollama's real client, unchanged, against the real server with the embedded model behind it.

import { Ollama } from "ollama";
import { afterAll, beforeAll, expect, test } from "vitest";
import { violation } from "../../../src/grammar/testing/schema-validator.js";
import type { RunningServer } from "../../../src/server/index.js";
import { describeCpu } from "../../conformance/subjects.js";
import { IDLE, MODEL as model, startServer, untilIdle } from "./running-server.js";

const messages = [{ role: "user", content: "Tell me about the fox and the king." }];
const greedy = { temperature: 0, num_predict: 30 };
const HERO = {
  type: "object",
  properties: { name: { type: "string", maxLength: 9 }, age: { type: "integer", minimum: 1, maximum: 99 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const tools = [
  {
    type: "function",
    function: { name: "weather", description: "The weather", parameters: { type: "object", properties: {} } },
  },
];

describeCpu("with the embedded model", () => {
  let served: RunningServer;
  let ollama: Ollama;
  beforeAll(async () => {
    served = await startServer({ ollamaPort: 0 });
    ollama = new Ollama({ host: served.ollamaUrl ?? "" });
  });
  afterAll(() => served.stop(0));

  test("it is found on the port of its own, and described by its file", async () => {
    expect(served.ollamaUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const { models } = await ollama.list();
    expect(models).toMatchObject([
      { name: "fable:latest", details: { family: "llama", quantization_level: "Q4_K_M", parameter_size: "10.5M" } },
    ]);
    expect((await ollama.ps()).models).toMatchObject([
      { name: "fable:latest", context_length: 512, size: models[0]?.size, size_vram: 0 },
    ]);
    const { model_info: info, capabilities } = await ollama.show({ model: "fable:latest" });
    expect(info).toMatchObject({ "general.architecture": "llama", "llama.context_length": 512 });
    expect(capabilities).toContain("completion");
  });

  test("a chat, whole and streamed, is the same text", async () => {
    const whole = await ollama.chat({ model, messages, options: greedy });
    expect(whole).toMatchObject({ done: true, done_reason: "length", eval_count: 30 });
    expect(whole.total_duration).toBeGreaterThanOrEqual(whole.prompt_eval_duration + whole.eval_duration * 0.5);
    let text = "";
    for await (const { message } of await ollama.chat({ model, messages, options: greedy, stream: true }))
      text += message.content;
    expect([text, whole.message.content.length > 20]).toEqual([whole.message.content, true]);
  });

  test("a generation continues the prompt itself if it is raw", async () => {
    const { response } = await ollama.generate({ model, prompt: "Once upon a", options: greedy, raw: true });
    expect(response).toMatch(/^ time/);
    const stopped = await ollama.generate({
      model,
      prompt: "Once upon a",
      options: { ...greedy, stop: [" time"] },
      raw: true,
    });
    expect(stopped).toMatchObject({ response: "", done_reason: "stop" });
  });

  test("a schema is followed, also beside tools", async () => {
    const ask = { model, messages, format: HERO, options: { seed: 3 } };
    for (const extra of [{}, { tools }]) {
      const { message } = await ollama.chat({ ...ask, ...extra });
      if (message.tool_calls === undefined) expect(violation(HERO, HERO, JSON.parse(message.content))).toBeUndefined();
      else expect(message.tool_calls).toMatchObject([{ function: { name: "weather", arguments: {} } }]);
    }
  });

  test("vectors have the length 1", async () => {
    const { embeddings } = await ollama.embed({ model, input: ["the fox", "the king"] });
    for (const vector of embeddings) expect(Math.hypot(...vector)).toBeCloseTo(1, 4);
    expect(embeddings).toHaveLength(2);
    const long = await ollama.embed({ model, input: "The fox saw the king. ".repeat(200) });
    expect(long.prompt_eval_count).toBe(512);
  });

  test("an abort frees what the request held", async () => {
    const stream = await ollama.chat({ model, messages, options: { num_predict: -1 }, stream: true });
    const reading = (async () => {
      for await (const _ of stream) ollama.abort();
    })();
    await expect(reading).rejects.toMatchObject({ name: "AbortError" });
    expect(await untilIdle(served.url)).toEqual(IDLE);
  });
});
