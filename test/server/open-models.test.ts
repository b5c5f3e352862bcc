// A server on models that its program has open, and on paths by name.

import { expect, test } from "vitest";
import { loadModel } from "../../src/index.js";
import { serve } from "../../src/server/index.js";
import { SMALL_MODEL } from "../cli/command-line.js";

async function complete(url: string, model: string): Promise<{ readonly model: string; readonly text: string }> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: "Once upon a time", max_tokens: 5, temperature: 0 }),
  });
  expect(response.status).toBe(200);
  const body = (await response.json()) as {
    readonly model: string;
    readonly choices: readonly { readonly text: string }[];
  };
  return { model: body.model, text: body.choices[0].text };
}

test("an open model is served by its name beside files, and stays open when the server has stopped", async () => {
  await using model = await loadModel(SMALL_MODEL, { backend: "reference", contextTokens: 128 });
  const options = { maxTokens: 5, temperature: 0 };
  const { text } = await model.generate("Once upon a time", options).result;
  const server = await serve({
    models: { hero: model, file: SMALL_MODEL },
    model: { backend: "reference", contextTokens: 128 },
    port: 0,
  });
  await server.ready;
  expect(server.models().map(({ name, state }) => [name, state])).toEqual([
    ["hero", "loaded"],
    ["file", "unloaded"],
  ]);
  expect(await complete(server.url, "hero")).toEqual({ model: "hero", text });
  expect(await complete(server.url, "file")).toEqual({ model: "file", text });
  await server.stop(1000);
  expect((await model.generate("Once upon a time", options).result).text).toBe(text);
});
