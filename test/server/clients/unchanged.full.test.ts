// Six clients as their packages have them, in their newest majors, against the real server with the embedded model: chat,
// streams, tool calls, structured output, embeddings and aborts, as far as the client has them, and what it does not get
// (docs/clients.md). Most of them need Node 22, so each runs in a process of its own (unchanged/*.mjs).

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunningServer } from "../../../src/server/index.js";
import { describeCpu } from "../../conformance/subjects.js";
import { IDLE, startServer, untilIdle } from "../serving/running-server.js";
import { newerNode, packageFile } from "./session.js";

const node = newerNode();
const reason = !existsSync(packageFile(".package-lock.json"))
  ? "test/server/clients is not installed; npm run test:full installs it"
  : node === undefined
    ? "there is no Node 22 on this machine"
    : undefined;
const TOKENS = 30;
const COMPLETION = / time/;
const UNIT_VECTORS = { lengths: [1, 1] };
const REFUSED = { status: 400 };

// Tests look into what each client made of it.
// oxlint-disable-next-line typescript/no-explicit-any
type Outcomes = Readonly<Record<string, any>>;

describe.skipIf(reason !== undefined)(
  `clients, unchanged${reason === undefined ? "" : ` (skipped: ${reason})`}`,
  () => {
    describeCpu("with the embedded model", () => {
      let served: RunningServer;
      let text: string;
      beforeAll(async () => {
        served = await startServer({ ollamaPort: 0, logLevel: "silent" });
        const response = await fetch(`${served.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            messages: [{ role: "user", content: "Tell me about the fox and the king." }],
            temperature: 0,
            max_tokens: TOKENS,
          }),
        });
        text = ((await response.json()) as Outcomes)["choices"][0].message.content;
      });
      afterAll(() => served.stop(0));

      async function outcomesOf(client: string, url = served.url): Promise<Outcomes> {
        const script = fileURLToPath(new URL(`unchanged/${client}.mjs`, import.meta.url));
        const { stdout, stderr } = await promisify(execFile)(node ?? "", [script, url], { maxBuffer: 2 ** 24 });
        expect(stderr).toBe("");
        expect(await untilIdle(served.url)).toEqual(IDLE);
        return JSON.parse(stdout) as Outcomes;
      }

      /** Requests that their clients aborted. */
      async function abortedOn(route: string): Promise<number> {
        const metrics = await (await fetch(`${served.url}/metrics`)).text();
        const label = `rocmforge_http_requests_total{route="${route}",status="499"} `;
        const line = metrics.split("\n").find((each) => each.startsWith(label));
        return Number(line?.slice(label.length) ?? 0);
      }

      test("openai", async () => {
        expect(text.length).toBeGreaterThan(20);
        const before = await abortedOn("/v1/chat/completions");
        expect(await outcomesOf("openai")).toEqual({
          models: ["fable"],
          chat: { text, finish: "length", tokens: TOKENS },
          streamedChat: { text, deltas: expect.any(Number), finish: "length", tokens: TOKENS },
          toolCall: { name: "weather", fits: true, finish: "tool_calls" },
          toolRunner: { asked: 1, roles: ["user", "assistant", "tool"] },
          structuredOutput: true,
          completion: expect.stringMatching(COMPLETION),
          embeddings: { ...UNIT_VECTORS, same: true },
          responses: { same: true, previous: true, longer: true, kept: true, inputItems: 3, deleted: 404 },
          parsedResponse: true,
          abort: true,
          notServed: { name: "Error", class: "NotFoundError", status: 404 },
          image: expect.objectContaining(REFUSED),
          files: expect.objectContaining({ status: 404 }),
        });
        expect(await abortedOn("/v1/chat/completions")).toBe(before + 1);
      });

      test("@anthropic-ai/sdk", async () => {
        expect(await outcomesOf("anthropic")).toEqual({
          models: ["fable"],
          chat: { text, finish: "max_tokens", tokens: TOKENS },
          streamedChat: { text, deltas: expect.any(Number), finish: "max_tokens", tokens: TOKENS },
          toolCall: { name: "weather", fits: true, finish: "tool_use" },
          toolRunner: { asked: 2, finish: "tool_use" },
          structuredOutput: true,
          countTokens: true,
          abort: expect.objectContaining({ class: "APIUserAbortError" }),
          notServed: expect.objectContaining({ class: "NotFoundError", status: 404 }),
          image: expect.objectContaining(REFUSED),
          thread: expect.objectContaining({ class: "ThreadUnsupportedRequestError" }),
          batches: expect.objectContaining({ status: 404 }),
        });
        expect(await abortedOn("/v1/messages")).toBe(1);
      });

      test("ollama", async () => {
        expect(await outcomesOf("ollama", served.ollamaUrl)).toEqual({
          models: { names: ["fable:latest"], capabilities: ["completion"], version: true },
          chat: { text, finish: "length", tokens: TOKENS },
          streamedChat: { text, deltas: expect.any(Number), finish: "length", tokens: TOKENS },
          structuredOutput: true,
          completion: expect.stringMatching(COMPLETION),
          embeddings: UNIT_VECTORS,
          abort: expect.objectContaining({ name: "AbortError" }),
          image: expect.objectContaining(REFUSED),
          create: expect.objectContaining({ status: 501 }),
        });
        expect(await abortedOn("/api/chat")).toBe(1);
      });

      test("@langchain/openai", async () => {
        const before = await abortedOn("/v1/chat/completions");
        expect(await outcomesOf("langchain")).toEqual({
          chat: { text, finish: "length", tokens: TOKENS },
          streamedChat: { text, deltas: expect.any(Number), tokens: TOKENS },
          batch: [text, text],
          toolCall: { name: "weather", fits: true, isResult: true, answered: true },
          structuredOutput: true,
          rawBesideParsed: true,
          completion: expect.stringMatching(COMPLETION),
          responses: { text, streamed: text, longer: true, fits: true },
          embeddings: { ...UNIT_VECTORS, same: true },
          abort: expect.objectContaining({ name: "AbortError" }),
          image: expect.objectContaining(REFUSED),
        });
        expect(await abortedOn("/v1/chat/completions")).toBe(before + 1);
      });

      test("@openai/agents", async () => {
        const before = await abortedOn("/v1/chat/completions");
        const told = await outcomesOf("agents");
        const { value: answer } = told["chat-chat"] as { readonly value: string };
        const toolCall = { fits: true, items: ["tool_call_item", "tool_call_output_item"], output: "It rains." };
        expect(answer.length).toBeGreaterThan(20);
        expect(told).toEqual({
          "chat-chat": { value: answer },
          "chat-streamedChat": { text: answer },
          "chat-toolCall": toolCall,
          "chat-structuredOutput": true,
          "chat-abort": true,
          // A response that ends at its token limit is an error to this client; its text is streamed before.
          "responses-chat": expect.objectContaining({ class: "ModelBehaviorError" }),
          "responses-streamedChat": { text: answer, error: "ModelBehaviorError" },
          "responses-toolCall": toolCall,
          "responses-structuredOutput": true,
          "responses-abort": true,
          previousResponse: { fits: true, longer: true },
        });
        expect([await abortedOn("/v1/chat/completions"), await abortedOn("/v1/responses")]).toEqual([before + 1, 1]);
      });

      test("ai, with each provider that speaks an API of this server", async () => {
        const told = await outcomesOf("ai-sdk");
        const expected: Outcomes = {
          chat: { text, finish: "length", tokens: TOKENS },
          streamedChat: { text, deltas: expect.any(Number), finish: "length", tokens: TOKENS },
          toolCall: { fits: true, finishes: ["tool-calls", expect.any(String)], answered: true },
          structuredOutput: true,
          abort: "abort",
          image: expect.objectContaining(REFUSED),
          embeddings: { ...UNIT_VECTORS, tokens: 6 },
        };
        expect(Object.keys(told)).toHaveLength(4 * 6 + 2);
        for (const [name, outcome] of Object.entries(told))
          expect([name, outcome]).toEqual([name, expected[name.split("-")[1] ?? ""]]);
      });
    });
  },
);
