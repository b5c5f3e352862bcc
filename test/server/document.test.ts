// Keeps docs/server.md in step with the code: fields, limits, metrics.

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { chatCompletionRequestSchema } from "../../src/server/routes/openai/chat-completions/request.js";
import { completionRequestSchema } from "../../src/server/routes/openai/completions/request.js";
import { embeddingRequestSchema } from "../../src/server/routes/openai/embeddings.js";
import { ollamaChatSchema } from "../../src/server/routes/ollama/chat.js";
import { embedSchema } from "../../src/server/routes/ollama/embed.js";
import { generateSchema } from "../../src/server/routes/ollama/generate.js";
import { DEFAULT_LIMITS } from "../../src/server/http/limits.js";
import { messageRequestSchema } from "../../src/server/routes/anthropic/messages/request.js";
import { responseRequestSchema } from "../../src/server/routes/openai/responses/request.js";
import { startServer } from "../../src/server/testing/test-server.js";

const page = readFileSync(new URL("../../docs/server.md", import.meta.url), "utf8");
const named = new Set([...page.matchAll(/`([^`]+)`/g)].map(([, name]) => name));
const forms = [
  chatCompletionRequestSchema,
  completionRequestSchema,
  embeddingRequestSchema,
  responseRequestSchema,
  messageRequestSchema,
  ollamaChatSchema,
  generateSchema,
  embedSchema,
].map((form) => form(DEFAULT_LIMITS));

test("names every field that has no effect or is refused", () => {
  const fields = forms.flatMap(({ withoutEffect, refused }) => [...withoutEffect, ...Object.keys(refused)]);
  expect(fields.filter((field) => !named.has(field))).toEqual([]);
  expect(fields.length).toBeGreaterThan(40);
});

test("names every limit, and none that is not there", () => {
  expect(Object.keys(DEFAULT_LIMITS).filter((limit) => !named.has(limit))).toEqual([]);
  const table = page.split("## Limits")[1]?.split("## ")[0] ?? "";
  const rows = table.split("\n").filter((line) => line.startsWith("| `"));
  const listed = rows.flatMap((row) =>
    [...(row.split(" | ")[0] ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name as string),
  );
  expect(listed.filter((limit) => !(limit in DEFAULT_LIMITS))).toEqual([]);
});

test("names every metric and every path", async () => {
  await using served = await startServer();
  const { text } = await served.get("/metrics");
  const metrics = [...text.matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name as string);
  expect(metrics.length).toBeGreaterThan(15);
  expect(metrics.filter((metric) => !named.has(metric))).toEqual([]);
  const { json } = await served.get("/openapi.json");
  const paths = Object.keys(json.paths).map((path) => path.replace("{id}", ":id"));
  expect(paths.filter((path) => !page.includes(path))).toEqual([]);
});
