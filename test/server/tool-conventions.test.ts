// Every convention for thoughts and tool calls through the server: the family's own spelling in, the API's fields out.
// Templates, tokens, grammars and HTTP are real; what the model writes is scripted. Each family is tried with its marks
// as control tokens, and with a vocabulary that spells them as text.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChatRenderer } from "../../src/chat/chat-renderer.js";
import { callConvention } from "../../src/chat/output/convention.js";
import { type CallConvention, CONVENTIONS, conventionOf } from "../../src/chat/output/conventions.js";
import { GrammarCompilers } from "../../src/completion/grammar-compilers.js";
import { createServer, type Server } from "../../src/server/server.js";
import { FakeModelPool } from "../../src/server/testing/fake-model.js";
import { eventsOf } from "../../src/server/testing/test-server.js";
import { CONVENTION_FAMILIES, type ConventionFamily, type SpokenCall } from "../library/chat/convention-families.js";
import { ScriptedFamily } from "./scripted-family.js";
import { FULL_RUN } from "../support/full-run.js";

const TURN_MARKS = ["<|turn|>", "<|stop|>"];

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Says the weather.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "integer" }, exact: { type: "boolean" } },
      required: ["city"],
    },
  },
};
const search = {
  type: "function",
  function: {
    name: "search",
    description: "Searches.",
    parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] },
  },
};
const tools = [weather, search];
const messages = [{ role: "user", content: "Weather in Köln, and 90210?" }];
const schema = {
  type: "object",
  properties: { title: { type: "string" }, stars: { type: "integer", minimum: 1, maximum: 5 } },
  required: ["title", "stars"],
  additionalProperties: false,
};
const response_format = { type: "json_schema", json_schema: { name: "review", schema } };
const review = '{"title": "It\'s <b> & \\"good\\"", "stars": 4}';

const first: SpokenCall = { name: "get_weather", given: { city: "Köln <1> it's", days: 3, exact: true } };
const second: SpokenCall = { name: "search", given: { query: "90210" } };

interface Reply {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly given: unknown }[];
  readonly finish: string;
  readonly reasoningTokens: number;
}

interface Message {
  readonly content: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
}

let server: Server;
let url: string;
let renderer: ChatRenderer;
let grammars: GrammarCompilers;
const models = new Map<string, ScriptedFamily>();

function modelOf(name: string, family: ConventionFamily): ScriptedFamily {
  const model = new ScriptedFamily(name, family);
  models.set(name, model);
  return model;
}

beforeAll(async () => {
  renderer = new ChatRenderer({ deadlineMs: 30_000 });
  // One thread is started sooner than several, and a busy machine may take its time.
  grammars = new GrammarCompilers({ threads: 1, quickCompileMs: 20_000, compileMs: 20_000, maskDeadlineMs: 20_000 });
  const all = Object.entries(CONVENTION_FAMILIES).flatMap(([name, family]) => [
    modelOf(name, family),
    modelOf(`${name}, as text`, { ...family, controls: TURN_MARKS }),
  ]);
  const [one, ...others] = all;
  server = createServer({ pool: new FakeModelPool(one, ...others), chat: renderer, grammar: grammars, port: 0 });
  url = await server.listen();
});
afterAll(async () => {
  await server.stop(0);
  await grammars[Symbol.asyncDispose]();
  await renderer[Symbol.asyncDispose]();
});

async function post(body: object): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** What the client gets if the model writes this, whole and streamed, which have to agree. */
async function ask(name: string, reply: string, body: object): Promise<Reply> {
  const model = models.get(name) as ScriptedFamily;
  model.reply = reply;
  const request = { model: name, messages, ...body };
  const response = await post(request);
  const whole = (await response.json()) as {
    readonly choices: readonly { readonly message: Message; readonly finish_reason: string }[];
    readonly usage: { readonly completion_tokens_details: { readonly reasoning_tokens: number } };
  };
  expect({ status: response.status, whole }).toMatchObject({ status: 200 });
  const [{ message, finish_reason: finish }] = whole.choices;
  const joined: Reply = {
    content: message.content ?? "",
    reasoning: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? []).map((call) => ({
      name: call.function.name,
      given: JSON.parse(call.function.arguments) as unknown,
    })),
    finish,
    reasoningTokens: whole.usage.completion_tokens_details.reasoning_tokens,
  };
  expect(await streamed(request)).toStrictEqual(joined);
  return joined;
}

async function streamed(request: object): Promise<Reply> {
  const response = await post({ ...request, stream: true, stream_options: { include_usage: true } });
  const calls: { name: string; text: string }[] = [];
  let [content, reasoning, finish, reasoningTokens] = ["", "", "", 0];
  for (const event of eventsOf(await response.text())) {
    const [choice] = event.choices;
    content += choice?.delta.content ?? "";
    reasoning += choice?.delta.reasoning_content ?? "";
    for (const { index, function: part } of choice?.delta.tool_calls ?? []) {
      calls[index] ??= { name: part.name, text: "" };
      calls[index].text += part.arguments;
    }
    finish = choice?.finish_reason ?? finish;
    reasoningTokens = event.usage?.completion_tokens_details.reasoning_tokens ?? reasoningTokens;
  }
  const parsed = calls.map(({ name, text }) => ({ name, given: JSON.parse(text) as unknown }));
  return { content, reasoning, calls: parsed, finish, reasoningTokens };
}

test("there is a family for each convention", () => {
  const tried = Object.values(CONVENTION_FAMILIES).map(({ convention }) => convention);
  const own = Object.keys(CONVENTIONS).filter((name) => name !== "bare-json" && name !== "action-text");
  expect(tried.toSorted()).toStrictEqual(own.toSorted());
});

for (const [index, [family, spoken]] of Object.entries(CONVENTION_FAMILIES).entries()) {
  const { think, answer = (words) => words, preamble = (words) => `${words}\n`, call, broken, oneCall } = spoken;
  const thoughts = think?.("Let me think.") ?? "";
  const reasoning = think === undefined ? "" : "Let me think.";
  const spokenCalls = oneCall === true ? [first] : [first, second];
  const expected = spokenCalls.map(({ name, given }) => ({ name, given }));

  // Marks as control tokens, and as text; in full runs each convention has both.
  const forms = [family, `${family}, as text`];
  describe.each(FULL_RUN ? forms : [forms[index % forms.length]])("%s", (name) => {
    // Each model has worker threads for its grammars.
    afterAll(() => grammars.forget(models.get(name) as ScriptedFamily));

    test("is told from the template", () => {
      expect(callConvention(spoken.template)).toBe(spoken.convention);
    });

    test("thinks, speaks and calls by its own choice", async () => {
      const reply = thoughts + preamble("I will look.") + call(spokenCalls);
      const { reasoningTokens, ...rest } = await ask(name, reply, { tools });
      expect(rest).toStrictEqual({ content: "I will look.", reasoning, calls: expected, finish: "tool_calls" });
      expect(reasoningTokens > 0).toBe(reasoning !== "");
    });

    test("answers, with tools and without", async () => {
      const reply = thoughts + answer("It rains.\n\n- a\n- b");
      for (const body of [{ tools }, {}, { tools, tool_choice: "none" }])
        expect(await ask(name, reply, body)).toMatchObject({
          content: "It rains.\n\n- a\n- b",
          reasoning,
          calls: [],
          finish: "stop",
        });
    });

    test("is held to its own spelling of a call that is demanded", async () => {
      const demanded = call([first]);
      const called = { content: "", reasoning: "", calls: [first], finish: "tool_calls", reasoningTokens: 0 };
      const off = { enable_thinking: false };
      expect(await ask(name, demanded, { tools, tool_choice: "required", ...off })).toStrictEqual(called);
      const named = { type: "function", function: { name: "get_weather" } };
      expect(await ask(name, demanded, { tools, tool_choice: named, ...off })).toStrictEqual(called);
      // Another tool than the named one, and text, are not allowed.
      for (const wrong of [call([second]), answer("No.")]) {
        (models.get(name) as ScriptedFamily).reply = wrong;
        const refused = await post({ model: name, messages, tools, tool_choice: named, ...off });
        expect([refused.status, await refused.text()]).toStrictEqual([500, expect.stringContaining("error")]);
      }
    });

    test("thinks before what is demanded, if it was asked to, or cannot do otherwise", async () => {
      const { answer: marked } = conventionOf(spoken.convention as CallConvention);
      if (reasoning === "") return;
      for (const asked of spoken.alwaysThinks === true
        ? [{}, { enable_thinking: true }]
        : [{ enable_thinking: true }]) {
        const required = { tools, tool_choice: "required", ...asked };
        expect(await ask(name, thoughts + call([first]), required)).toMatchObject({
          content: "",
          reasoning,
          calls: [first],
          finish: "tool_calls",
        });
        if (marked === undefined)
          expect(await ask(name, thoughts + review, { response_format, ...asked })).toMatchObject({
            content: review,
            reasoning,
            finish: "stop",
          });
        (models.get(name) as ScriptedFamily).reply = `${thoughts}No.`;
        expect((await post({ model: name, messages, ...required })).status).toBe(500);
      }
    });

    test("makes as many calls as it may", async () => {
      const both = call([first, second]);
      const { calls, finish } = await ask(name, thoughts + both, { tools, parallel_tool_calls: false });
      expect({ calls, finish }).toStrictEqual({ calls: [first], finish: "tool_calls" });
      const required = { tools, tool_choice: "required", enable_thinking: false };
      // Calls with numbers of their own, and families with one call in a turn, are held to one.
      const several = conventionOf(spoken.convention as CallConvention).several !== undefined;
      const limited = { ...required, parallel_tool_calls: false };
      if (several) expect(await ask(name, both, required)).toMatchObject({ content: "", calls: [first, second] });
      for (const body of several ? [limited] : spokenCalls.length > 1 ? [required, limited] : []) {
        (models.get(name) as ScriptedFamily).reply = both;
        expect((await post({ model: name, messages, ...body })).status).toBe(500);
      }
      expect(await ask(name, call([second]), limited)).toMatchObject({ calls: [second], finish: "tool_calls" });
      if (several)
        expect(await ask(name, both, { response_format, tools, enable_thinking: false })).toMatchObject({
          content: "",
          calls: [first, second],
        });
    });

    test("answers in a schema's form, which tools do not change", async () => {
      const formed = { content: review, calls: [], finish: "stop" };
      const off = { response_format, enable_thinking: false };
      expect(await ask(name, review, off)).toMatchObject(formed);
      expect(await ask(name, answer(review), { ...off, tools })).toMatchObject(formed);
      expect(await ask(name, call([first]), { ...off, tools })).toMatchObject({
        content: "",
        calls: [first],
        finish: "tool_calls",
      });
    });

    test("gives a call that is not valid as text", async () => {
      const { content, calls, finish } = await ask(name, thoughts + broken, { tools });
      expect({ calls, finish }).toStrictEqual({ calls: [], finish: "stop" });
      expect(content).not.toBe("");
    });
  });
}
