// The real clients of OpenAI and Anthropic, unchanged, against the real server with the embedded model behind it.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violation } from "../../../src/grammar/testing/schema-validator.js";
import type { RunningServer } from "../../../src/server/index.js";
import { describeCpu } from "../../conformance/subjects.js";
import { accountOf, IDLE, MODEL as model, startServer, untilIdle } from "./running-server.js";

const messages: OpenAI.ChatCompletionMessageParam[] = [
  { role: "user", content: "Tell me about the fox and the king." },
];
/** More than anybody reads at once: thousands of tokens, each with its rivals. */
const LONG = { model, messages, n: 16, logprobs: true, top_logprobs: 20, ...({ ignore_eos: true } as object) };
const greedy = { model, messages, temperature: 0, max_completion_tokens: 40 } as const;
/** Bounded, so that a small model gets to the end of it. */
const HERO = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 12 },
    age: { type: "integer", minimum: 1, maximum: 99 },
    kind: { enum: ["fox", "bird", "king"] },
    gifts: { type: "array", items: { type: "string", maxLength: 8 }, minItems: 1, maxItems: 2 },
  },
  required: ["name", "age", "kind", "gifts"],
  additionalProperties: false,
};
/** Short: with two tools described, a prompt must leave room in 512 tokens. */
const GUEST = {
  type: "object",
  properties: { name: { type: "string", maxLength: 9 }, age: { type: "integer", minimum: 1, maximum: 99 } },
  required: ["name", "age"],
  additionalProperties: false,
};
const PLACE = {
  type: "object",
  properties: { city: { enum: ["Oslo", "Rome"] } },
  required: ["city"],
  additionalProperties: false,
};

function expectValid(schema: unknown, text: string): void {
  expect(violation(schema, schema, JSON.parse(text))).toBeUndefined();
}

describeCpu("with the embedded model", () => {
  let served: RunningServer;
  let openai: OpenAI;
  let anthropic: Anthropic;
  beforeAll(async () => {
    served = await startServer();
    openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none-needed", maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: served.url, apiKey: "none-needed", maxRetries: 0 });
  });
  afterAll(() => served.stop(0));

  describe("openai", () => {
    test("chat, whole and streamed with usage, is the same text", async () => {
      const whole = await openai.chat.completions.create(greedy);
      const { message, finish_reason: reason } = whole.choices[0];
      expect(message.content?.length).toBeGreaterThan(20);
      expect(reason).toBe("length");
      expect(whole.usage).toMatchObject({
        completion_tokens: 40,
        total_tokens: (whole.usage?.prompt_tokens ?? 0) + 40,
      });
      let text = "";
      let chunks = 0;
      let usage: OpenAI.CompletionUsage | null | undefined;
      for await (const chunk of await openai.chat.completions.create({
        ...greedy,
        stream: true,
        stream_options: { include_usage: true },
      })) {
        text += chunk.choices[0]?.delta.content ?? "";
        chunks++;
        usage = chunk.usage;
      }
      expect(text).toBe(message.content);
      expect(chunks).toBeGreaterThan(10);
      expect(usage).toMatchObject({ prompt_tokens: whole.usage?.prompt_tokens, completion_tokens: 40 });
    });

    test("a conversation of several turns", async () => {
      const turns: OpenAI.ChatCompletionMessageParam[] = [
        { role: "system", content: "You tell old stories." },
        ...messages,
        { role: "assistant", content: "There was a fox." },
        { role: "user", content: "And then?" },
      ];
      const short = await openai.chat.completions.create({ ...greedy, max_completion_tokens: 1 });
      const long = await openai.chat.completions.create({ ...greedy, messages: turns });
      expect(long.usage?.prompt_tokens).toBeGreaterThan(short.usage?.prompt_tokens ?? Number.POSITIVE_INFINITY);
    });

    describe("seeds, in deterministic mode: elsewhere drafts change the batches of steps, and with them last bits", () => {
      let exact: RunningServer;
      let seeded: OpenAI;
      beforeAll(async () => {
        exact = await startServer({ model: { backend: "cpu", deterministic: true } });
        seeded = new OpenAI({ baseURL: `${exact.url}/v1`, apiKey: "none-needed", maxRetries: 0 });
      });
      afterAll(() => exact.stop(0));

      test("n and seed: as many texts as asked for, and the same ones for the same seed", async () => {
        const ask = async (seed: number): Promise<(string | null)[]> => {
          const { choices } = await seeded.chat.completions.create({ ...greedy, temperature: 1.2, n: 3, seed });
          return choices.map(({ message }) => message.content);
        };
        const [first, other] = [await ask(7), await ask(1007)];
        expect(new Set(first).size).toBe(3);
        expect(await ask(7)).toEqual(first);
        expect(other).not.toEqual(first);
      });

      test("a negative seed is a seed like any other, and its choices differ", async () => {
        const ask = async (): Promise<(string | null)[]> => {
          const { choices } = await seeded.chat.completions.create({ ...greedy, temperature: 1.2, n: 3, seed: -1 });
          return choices.map(({ message }) => message.content);
        };
        const first = await ask();
        expect(new Set(first).size).toBe(3);
        expect(await ask()).toEqual(first);
      });
    });

    test("log-probabilities: one for each token of the text, which is in their bytes, rivals in order", async () => {
      const { choices } = await openai.chat.completions.create({ ...greedy, logprobs: true, top_logprobs: 4 });
      const content = choices[0].logprobs?.content ?? [];
      // Blanks that were written before the text are not shown.
      expect(content.length).toBeGreaterThan(35);
      expect(Buffer.from(content.flatMap(({ bytes }) => bytes ?? [])).toString()).toBe(choices[0].message.content);
      for (const { token, logprob, top_logprobs: rivals } of content) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(rivals).toHaveLength(4);
        expect(rivals.map((rival) => rival.logprob)).toEqual(
          rivals.map((rival) => rival.logprob).toSorted((left, right) => right - left),
        );
        // Greedy: what was chosen is the likeliest.
        expect(rivals[0]).toMatchObject({ token, logprob });
      }
    });

    test("stop ends a text before the words, and logit_bias changes it", async () => {
      const text = (await openai.chat.completions.create(greedy)).choices[0].message.content ?? "";
      const stop = text.slice(12, 17);
      const { choices, usage } = await openai.chat.completions.create({ ...greedy, stop: [stop] });
      expect(choices[0]).toMatchObject({
        finish_reason: "stop",
        message: { content: text.slice(0, text.indexOf(stop)) },
      });
      expect(usage?.completion_tokens).toBeLessThan(40);
      const tokens = (await (
        await fetch(`${served.url}/tokenize`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ content: text, add_special: false }),
        })
      ).json()) as { tokens: number[] };
      const barred = await openai.chat.completions.create({
        ...greedy,
        logit_bias: Object.fromEntries(tokens.tokens.map((token) => [token, -100])),
      });
      expect(barred.choices[0].message.content).not.toContain(text.slice(0, 12));
    });

    describe("tools", () => {
      const tools: OpenAI.ChatCompletionTool[] = [
        { type: "function", function: { name: "weather", parameters: PLACE, strict: true } },
        { type: "function", function: { name: "meet", parameters: GUEST } },
      ];
      const ask = { model, messages, tools, max_completion_tokens: 300 };
      const schemas: Readonly<Record<string, unknown>> = { weather: PLACE, meet: GUEST };

      function expectCall(completion: OpenAI.ChatCompletion, names: readonly string[]): void {
        const [{ message, finish_reason: reason }] = completion.choices;
        expect(reason).toBe("tool_calls");
        for (const call of message.tool_calls ?? []) {
          if (call.type !== "function") throw new Error(`a call of type ${call.type}`);
          expect(names).toContain(call.function.name);
          expectValid(schemas[call.function.name], call.function.arguments);
        }
        expect(message.tool_calls?.length).toBeGreaterThan(0);
      }

      test.each([1, 2, 3])(
        "required: some tool, arguments that satisfy its schema, whole and streamed (seed %i)",
        async (seed) => {
          expectCall(await openai.chat.completions.create({ ...ask, seed, tool_choice: "required" }), [
            "weather",
            "meet",
          ]);
          expectCall(
            await openai.chat.completions.stream({ ...ask, seed, tool_choice: "required" }).finalChatCompletion(),
            ["weather", "meet"],
          );
        },
      );

      test.each(["weather", "meet"])("named: %s and no other, whole and streamed", async (name) => {
        const choice = { ...ask, seed: 4, tool_choice: { type: "function", function: { name } } } as const;
        expectCall(await openai.chat.completions.create(choice), [name]);
        expectCall(await openai.chat.completions.stream(choice).finalChatCompletion(), [name]);
      });

      test("a call that must be is whole, whatever the stop strings", async () => {
        expectCall(
          await openai.chat.completions.create({ ...ask, seed: 5, tool_choice: "required", stop: ["\n", "{", "name"] }),
          ["weather", "meet"],
        );
      });

      test("stop ends the text beside tools before the words, for its own choice alone", async () => {
        const free = { ...greedy, tools, max_completion_tokens: 30 };
        const text = (await openai.chat.completions.create(free)).choices[0].message.content ?? "";
        expect(text.length).toBeGreaterThan(20);
        const stop = text.slice(12, 17);
        const { choices, usage } = await openai.chat.completions.create({ ...free, stop, n: 2 });
        for (const { message, finish_reason: reason } of choices)
          expect([message.content, reason]).toEqual([text.slice(0, text.indexOf(stop)), "stop"]);
        expect(usage?.completion_tokens).toBeLessThan(60);
        expect(await untilIdle(served.url)).toEqual(IDLE);
      });

      test("there and back: the result of a call is part of the next prompt", async () => {
        const first = await openai.chat.completions.create({
          ...ask,
          seed: 1,
          tool_choice: { type: "function", function: { name: "weather" } },
        });
        const { message } = first.choices[0];
        const answer: OpenAI.ChatCompletionToolMessageParam = {
          role: "tool",
          tool_call_id: message.tool_calls?.[0].id ?? "",
          content: "sunny",
        };
        const next = await openai.chat.completions.create({
          ...ask,
          messages: [...messages, message, answer],
          tool_choice: "none",
          max_completion_tokens: 8,
        });
        const without = await openai.chat.completions.create({ ...ask, tool_choice: "none", max_completion_tokens: 8 });
        expect(next.usage?.prompt_tokens).toBeGreaterThan(
          (without.usage?.prompt_tokens ?? Number.POSITIVE_INFINITY) + 10,
        );
        expect(next.choices[0].message.tool_calls).toBeUndefined();
      });
    });

    describe("structured output", () => {
      const wanted: OpenAI.ResponseFormatJSONSchema = {
        type: "json_schema",
        json_schema: { name: "hero", schema: HERO, strict: true },
      };

      test("a JSON schema, parsed by the client, and each of several choices", async () => {
        const answer = await openai.chat.completions.parse({
          model,
          messages,
          n: 3,
          seed: 1,
          max_completion_tokens: 300,
          response_format: wanted,
        });
        for (const { message, finish_reason: reason } of answer.choices) {
          expect(reason).toBe("stop");
          expect(violation(HERO, HERO, message.parsed)).toBeUndefined();
        }
      });

      test("a JSON schema, streamed", async () => {
        const final = await openai.chat.completions
          .stream({ model, messages, seed: 2, max_completion_tokens: 300, response_format: wanted })
          .finalChatCompletion();
        expectValid(HERO, final.choices[0].message.content ?? "");
      });

      test("any JSON object", async () => {
        const answer = await openai.chat.completions.create({
          model,
          messages,
          n: 8,
          seed: 5,
          max_completion_tokens: 400,
          response_format: { type: "json_object" },
        });
        const ended = answer.choices.filter(({ finish_reason: reason }) => reason === "stop");
        // A small model may fill the context with one string; not always.
        expect(ended.length).toBeGreaterThan(0);
        for (const { message } of ended) expect(JSON.parse(message.content ?? "")).toBeTypeOf("object");
        for (const { message } of answer.choices) expect(message.content?.trimStart()).toMatch(/^\{/);
      });

      test("beside tools: each answer is a call in its form or a text in the schema's", async () => {
        const tools: OpenAI.ChatCompletionTool[] = [
          { type: "function", function: { name: "weather", parameters: PLACE } },
        ];
        const numbers = { type: "array", items: { type: "integer" }, minItems: 1, maxItems: 3 };
        const response_format: OpenAI.ResponseFormatJSONSchema = {
          type: "json_schema",
          json_schema: { name: "numbers", schema: numbers },
        };
        // A small model has no opinion: which of the two it begins with is chosen for it.
        const firstToken = async (content: string): Promise<number> => {
          const tokenized = await fetch(`${served.url}/tokenize`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ content, add_special: false }),
          });
          return ((await tokenized.json()) as { readonly tokens: readonly [number] }).tokens[0];
        };
        for (const [begin, expected] of [
          ["{", "tool_calls"],
          ["[", "stop"],
        ] as const) {
          const logit_bias = { [await firstToken(begin)]: 100 };
          const { choices } = await openai.chat.completions.create({
            model,
            messages,
            tools,
            response_format,
            seed: 3,
            logit_bias,
            max_completion_tokens: 300,
            n: 4,
          });
          const ended = choices.filter(({ finish_reason: reason }) => reason !== "length");
          expect(ended.length).toBeGreaterThan(0);
          for (const { message, finish_reason: reason } of ended) {
            expect(reason).toBe(expected);
            const [call] = message.tool_calls ?? [];
            if (call?.type === "function") expectValid(PLACE, call.function.arguments);
            else expectValid(numbers, message.content ?? "");
          }
        }
      });

      test("a response in a schema's form", async () => {
        const answer = await openai.responses.create({
          model,
          input: "Who?",
          max_output_tokens: 300,
          text: { format: { type: "json_schema", name: "hero", schema: HERO } },
        });
        expectValid(HERO, answer.output_text);
      });
    });

    test("embeddings: float and base64 alike, of length 1, the same for the same text", async () => {
      const input = ["the fox", "a king and his daughter", "the fox"];
      const { data, usage } = await openai.embeddings.create({ model, input });
      const floats = await openai.embeddings.create({ model, input, encoding_format: "float" });
      expect(floats.data.map(({ embedding }) => embedding.length)).toEqual([256, 256, 256]);
      for (const [index, { embedding }] of data.entries()) {
        expect(Math.hypot(...embedding)).toBeCloseTo(1, 5);
        const similarity = embedding.reduce(
          (sum, value, place) => sum + value * floats.data[index].embedding[place],
          0,
        );
        expect(similarity).toBeCloseTo(1, 3);
      }
      expect(usage.prompt_tokens).toBeGreaterThan(6);
      // The same bits in both forms, where the same computation is asked for.
      const [base64, float] = [
        await openai.embeddings.create({ model, input: "fox" }),
        await openai.embeddings.create({ model, input: "fox", encoding_format: "float" }),
      ];
      expect(float.data[0].embedding).toEqual(base64.data[0].embedding);
    });

    test("completions: several prompts, echo, and streamed", async () => {
      const ask = { model, prompt: ["Once upon a time", "The fox"], max_tokens: 12, temperature: 0 };
      const { choices, usage } = await openai.completions.create(ask);
      expect(choices.map(({ index, finish_reason: reason }) => [index, reason])).toEqual([
        [0, "length"],
        [1, "length"],
      ]);
      expect(usage?.completion_tokens).toBe(24);
      const texts = ["", ""];
      for await (const chunk of await openai.completions.create({ ...ask, stream: true }))
        for (const { index, text } of chunk.choices) texts[index] += text;
      expect(texts).toEqual(choices.map(({ text }) => text));
      const echoed = await openai.completions.create({ ...ask, prompt: "The fox", echo: true });
      expect(echoed.choices[0].text).toBe(`The fox${texts[1]}`);
    });

    test("responses: whole and streamed, with tools and back", async () => {
      const ask = {
        model,
        input: "Tell me about the fox.",
        instructions: "You tell old stories.",
        temperature: 0,
        max_output_tokens: 30,
      } as const;
      const whole = await openai.responses.create(ask);
      expect(whole).toMatchObject({
        status: "incomplete",
        incomplete_details: { reason: "max_output_tokens" },
        usage: { output_tokens: 30 },
      });
      const final = await openai.responses.stream(ask).finalResponse();
      expect(final.output_text).toBe(whole.output_text);
      expect(whole.output_text.length).toBeGreaterThan(20);
      const tools: OpenAI.Responses.FunctionTool[] = [
        { type: "function", name: "meet", parameters: HERO, strict: true },
      ];
      const called = await openai.responses.create({
        model,
        input: "Who?",
        tools,
        tool_choice: "required",
        max_output_tokens: 300,
      });
      const call = called.output.find((item) => item.type === "function_call");
      expectValid(HERO, call?.arguments ?? "");
      const streamed = await openai.responses
        .stream({
          model,
          input: "Who?",
          tools,
          tool_choice: { type: "function", name: "meet" },
          max_output_tokens: 300,
        })
        .finalResponse();
      expectValid(HERO, streamed.output.find((item) => item.type === "function_call")?.arguments ?? "");
    });

    test("errors are of the client's own classes, whole and streamed", async () => {
      const unknown = openai.models.retrieve("nobody");
      await expect(unknown).rejects.toBeInstanceOf(OpenAI.NotFoundError);
      await expect(unknown).rejects.toMatchObject({ status: 404, code: "model_not_found" });
      for (const stream of [false, true]) {
        const bad = openai.chat.completions.create({ ...greedy, stream, temperature: -1 });
        await expect(bad).rejects.toBeInstanceOf(OpenAI.BadRequestError);
        await expect(bad).rejects.toMatchObject({ param: "temperature", type: "invalid_request_error" });
        const long = openai.chat.completions.create({
          ...greedy,
          stream,
          messages: [{ role: "user", content: "long ".repeat(2000) }],
        });
        await expect(long).rejects.toBeInstanceOf(OpenAI.BadRequestError);
        await expect(long).rejects.toMatchObject({ code: "context_length_exceeded" });
        const form = { type: "json_schema", json_schema: { name: "none", schema: { type: "nothing" } } } as const;
        await expect(
          openai.chat.completions.create({ ...greedy, stream, response_format: form }),
        ).rejects.toBeInstanceOf(OpenAI.BadRequestError);
      }
      await expect(openai.embeddings.create({ model, input: "long ".repeat(2000) })).rejects.toMatchObject({
        code: "context_length_exceeded",
      });
      expect(await untilIdle(served.url)).toEqual(IDLE);
    });

    test("abort in the middle of a stream ends the request, and its blocks come back", async () => {
      const stream = await openai.chat.completions.create({ ...LONG, stream: true });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 12) stream.controller.abort();
      expect(chunks).toBeLessThan(1000);
      expect(await untilIdle(served.url)).toEqual(IDLE);
      expect(await (await fetch(`${served.url}/metrics`)).text()).toMatch(
        /rocmforge_http_requests_total\{route="\/v1\/chat\/completions",status="499"\} 1$/m,
      );
    });

    test("abort of one that is not streamed", async () => {
      const aborting = new AbortController();
      const whole = openai.chat.completions.create(LONG, { signal: aborting.signal });
      const failure = whole.then(
        () => undefined,
        (error: unknown) => error,
      );
      while ((await accountOf(served.url)).running === 0);
      aborting.abort();
      expect(await failure).toBeInstanceOf(OpenAI.APIUserAbortError);
      expect(await untilIdle(served.url)).toEqual(IDLE);
    });
  });

  describe("anthropic", () => {
    /** The API knows it; this client's types do not any more. */
    const at = (temperature: number): object => ({ temperature });
    const ask = {
      model,
      max_tokens: 30,
      messages: [{ role: "user", content: "Tell me about the fox." }],
      ...at(0),
    } satisfies Anthropic.MessageCreateParams;
    const tools: Anthropic.Tool[] = [
      { name: "meet", input_schema: GUEST as Anthropic.Tool.InputSchema },
      { name: "weather", input_schema: PLACE as Anthropic.Tool.InputSchema },
    ];

    test("a message, whole and streamed, is the same text", async () => {
      const whole = await anthropic.messages.create({ ...ask, system: "You tell old stories." });
      expect(whole).toMatchObject({
        type: "message",
        role: "assistant",
        stop_reason: "max_tokens",
        usage: { output_tokens: 30 },
      });
      const stream = anthropic.messages.stream({ ...ask, system: "You tell old stories." });
      let text = "";
      stream.on("text", (part) => (text += part));
      const final = await stream.finalMessage();
      expect(final).toMatchObject({ content: whole.content, stop_reason: "max_tokens", usage: { output_tokens: 30 } });
      expect(whole.content).toMatchObject([{ type: "text", text }]);
      const stop = text.slice(12, 17);
      expect(
        await anthropic.messages.create({ ...ask, system: "You tell old stories.", stop_sequences: [stop] }),
      ).toMatchObject({
        stop_reason: "stop_sequence",
        stop_sequence: stop,
        content: [{ text: text.slice(0, text.indexOf(stop)) }],
      });
    });

    test.each<[what: string, choice: Anthropic.ToolChoice, names: readonly string[]]>([
      ["any", { type: "any" }, ["meet", "weather"]],
      ["a tool by name", { type: "tool", name: "meet" }, ["meet"]],
    ])("tool_choice %s: input that satisfies the schema, whole and streamed", async (_what, choice, names) => {
      const params = { ...ask, ...at(1), max_tokens: 300, tools, tool_choice: choice };
      const schemas: Readonly<Record<string, unknown>> = { meet: GUEST, weather: PLACE };
      for (const message of [
        await anthropic.messages.create(params),
        await anthropic.messages.stream(params).finalMessage(),
      ]) {
        expect(message.stop_reason).toBe("tool_use");
        const call = message.content.find((block) => block.type === "tool_use");
        expect(names).toContain(call?.name);
        expect(violation(schemas[call?.name ?? ""], schemas[call?.name ?? ""], call?.input)).toBeUndefined();
      }
    });

    test("what of the prompt was cached is told at the start of a stream", async () => {
      const long: Anthropic.MessageParam[] = [
        {
          role: "user",
          content: "Tell me about the owl that lived in the barn behind the mill, and about the mice. ".repeat(4),
        },
      ];
      for (const isFirst of [true, false]) {
        const usages: Anthropic.Usage[] = [];
        const stream = anthropic.messages.stream({ ...ask, messages: long, max_tokens: 2 });
        stream.on("streamEvent", (event) => event.type === "message_start" && usages.push({ ...event.message.usage }));
        const { usage } = await stream.finalMessage();
        expect(usages).toMatchObject([
          {
            input_tokens: usage.input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
            output_tokens: 0,
          },
        ]);
        if (!isFirst) expect(usage.cache_read_input_tokens).toBeGreaterThan(16);
      }
    });

    test("Claude Code's turns share a prefix, although the first line of their instructions changes", async () => {
      const system = (hash: string): Anthropic.TextBlockParam[] => [
        { type: "text", text: `x-anthropic-billing-header: cc_version=2.1.325.af0; cc_entrypoint=cli; cch=${hash};` },
        { type: "text", text: "You tell of the heron that stood by the weir and of the miller's lamp. ".repeat(9) },
      ];
      const question: Anthropic.MessageParam = { role: "user", content: "Who stood by the weir?" };
      const first = await anthropic.messages.create({ ...ask, system: system("00a1f"), messages: [question] });
      const promptTokens = first.usage.input_tokens + (first.usage.cache_read_input_tokens ?? 0);
      const turns: Anthropic.MessageParam[] = [
        question,
        { role: "assistant", content: first.content },
        { role: "user", content: "And then?" },
      ];
      const second = await anthropic.messages.create({ ...ask, system: system("93c07"), messages: turns });
      expect(first.usage.cache_read_input_tokens).toBeLessThan(promptTokens / 2);
      expect(second.usage.cache_read_input_tokens).toBeGreaterThan(promptTokens * 0.8);
    });

    test("tokens counted are the tokens read", async () => {
      const { input_tokens: counted } = await anthropic.messages.countTokens({ model, messages: ask.messages, tools });
      const { usage } = await anthropic.messages.create({
        ...ask,
        tools,
        tool_choice: { type: "auto" },
        max_tokens: 1,
      });
      expect(counted).toBe(usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
    });

    test("errors are of the client's own classes", async () => {
      await expect(anthropic.models.retrieve("nobody")).rejects.toBeInstanceOf(Anthropic.NotFoundError);
      await expect(anthropic.messages.create({ ...ask, ...at(-1) })).rejects.toBeInstanceOf(Anthropic.BadRequestError);
      const long = anthropic.messages.create({ ...ask, messages: [{ role: "user", content: "long ".repeat(2000) }] });
      await expect(long).rejects.toMatchObject({ status: 400, error: { error: { type: "invalid_request_error" } } });
    });

    test("abort in the middle of a stream ends the request, and its blocks come back", async () => {
      const stream = anthropic.messages.stream({ ...ask, ...at(1.5), max_tokens: 450 });
      stream.once("text", () => stream.abort());
      await expect(stream.done()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
      expect(await untilIdle(served.url)).toEqual(IDLE);
    });
  });
});

describeCpu("with a cache that is smaller than the context", () => {
  test("a chat that says nothing of its length is answered, up to what the cache holds", async () => {
    const served = await startServer({ serving: { kvCacheTokens: 128 } });
    try {
      const openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "none-needed", maxRetries: 0 });
      const { choices, usage } = await openai.chat.completions.create({
        model,
        messages,
        temperature: 0,
        ...({ ignore_eos: true } as object),
      });
      expect(choices[0].finish_reason).toBe("length");
      expect(usage?.total_tokens).toBeLessThanOrEqual(128);
      const long = openai.chat.completions.create({
        model,
        messages: [{ role: "user", content: "long ".repeat(200) }],
      });
      await expect(long).rejects.toMatchObject({ code: "context_length_exceeded", param: "messages" });
    } finally {
      await served.stop(0);
    }
  });
});
