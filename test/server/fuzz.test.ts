// Requests that are almost right, and some that are nothing of the kind: each is answered with a response or a refusal of
// its API's shape, never with a failure of the server, which answers others all the while and keeps nothing of it.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startServer, type TestServer, until } from "../../src/server/testing/test-server.js";
import { FULL_RUN } from "../support/full-run.js";

let served: TestServer;
beforeAll(async () => {
  served = await startServer({ logLevel: "error", limits: { bodyBytes: 200_000 } });
  served.model.script.answer = () => `<think>hm</think>ok [weather {"city":"Oslo"}]`;
});
afterAll(() => served[Symbol.asyncDispose]());

const schema = { type: "object", properties: { city: { type: "string" } } };
const messages = [
  { role: "system", content: "Be brief" },
  { role: "user", content: [{ type: "text", text: "Hi" }], name: "me" },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "call_1", type: "function", function: { name: "weather", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "call_1", content: "sunny" },
];
const sampling = {
  temperature: 1,
  top_p: 0.5,
  top_k: 3,
  min_p: 0.1,
  seed: 1,
  logit_bias: { "65": 1 },
  presence_penalty: 1,
  frequency_penalty: 1,
};

/** One body for each endpoint that uses as many fields as go together. */
const BODIES: Readonly<Record<string, object>> = {
  "/v1/chat/completions": {
    model: "fake",
    messages,
    ...sampling,
    stop: ["x", "y"],
    n: 2,
    max_completion_tokens: 9,
    logprobs: true,
    top_logprobs: 2,
    tools: [
      { type: "function", function: { name: "weather", description: "of a city", parameters: schema, strict: true } },
    ],
    tool_choice: { type: "function", function: { name: "weather" } },
    reasoning_effort: "low",
    chat_template_kwargs: { tone: "kind" },
    stream: true,
    stream_options: { include_usage: true },
    user: "me",
  },
  "/v1/completions": {
    model: "fake",
    prompt: ["a", "b"],
    ...sampling,
    stop: "x",
    n: 2,
    best_of: 2,
    max_tokens: 5,
    logprobs: 2,
    regex: "[a-z]",
    stream: false,
  },
  "/v1/embeddings": { model: "fake", input: [[1, 2], [3]], encoding_format: "base64", dimensions: 3 },
  "/v1/responses": {
    model: "fake",
    input: [
      { role: "user", content: "Hi" },
      { type: "reasoning", id: "rs_1", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Well", annotations: [] }] },
      { type: "function_call", call_id: "call_1", name: "weather", arguments: "{}" },
      { type: "function_call_output", call_id: "call_1", output: "sunny" },
    ],
    instructions: "Be brief",
    max_output_tokens: 20,
    text: { format: { type: "json_schema", name: "place", schema } },
    reasoning: { effort: "low" },
    include: ["message.output_text.logprobs"],
    stream: true,
  },
  "/v1/messages": {
    model: "fake",
    max_tokens: 20,
    system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }],
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "hm", signature: "" },
          { type: "tool_use", id: "call_1", name: "weather", input: {} },
        ],
      },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "call_1", content: [{ type: "text", text: "sunny" }] }],
      },
    ],
    tools: [{ name: "weather", input_schema: schema }],
    tool_choice: { type: "any" },
    thinking: { type: "enabled", budget_tokens: 1024 },
    stop_sequences: ["x"],
    temperature: 1,
    stream: true,
  },
  "/v1/messages/count_tokens": {
    model: "fake",
    messages: [{ role: "user", content: "Hi" }],
    tools: [{ name: "weather", input_schema: schema }],
  },
  "/tokenize": { model: "fake", content: "Hi", add_special: true, with_pieces: true },
  "/detokenize": { model: "fake", tokens: [1, 2, 256], special: true },
};

type Path = readonly (string | number)[];

function pathsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [path];
  return [
    path,
    ...Object.entries(value).flatMap(([key, inner]) =>
      pathsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
    ),
  ];
}

type Edit =
  | { readonly kind: "replace"; readonly value: unknown }
  | { readonly kind: "remove" }
  | { readonly kind: "add"; readonly key: string; readonly value: unknown };

function edited(value: unknown, path: Path, edit: Edit): unknown {
  const [key, ...rest] = path;
  if (key !== undefined && typeof value === "object" && value !== null) {
    const copy: Record<string | number, unknown> | unknown[] = Array.isArray(value) ? [...value] : { ...value };
    const slots = copy as Record<string | number, unknown>;
    if (rest.length === 0 && edit.kind === "remove") {
      if (Array.isArray(copy)) copy.splice(Number(key), 1);
      else delete slots[key];
    } else slots[key] = edited(slots[key], rest, edit);
    return copy;
  }
  if (edit.kind === "replace") return edit.value;
  if (edit.kind === "add" && typeof value === "object" && value !== null)
    return Array.isArray(value) ? [...value, edit.value] : { ...value, [edit.key]: edit.value };
  return value;
}

const HARD_VALUES: readonly unknown[] = [
  null,
  true,
  "",
  "x".repeat(70_000),
  "\ud800",
  "\0",
  0,
  -1,
  -0.5,
  1e308,
  2 ** 53,
  2 ** 31,
  1e-320,
  [],
  {},
  [null],
  [[]],
  [-1],
  [1.5],
  ["a", 1],
  { type: "image_url" },
  { type: null },
  { type: ["text"] },
  Array.from({ length: 5000 }, (_, index) => index),
  Array.from({ length: 3000 }, () => ({ role: "user" })),
  JSON.parse('{"__proto__": {"role": "user"}, "constructor": {"prototype": 1}}'),
];
const FIELDS = [
  "model",
  "messages",
  "prompt",
  "input",
  "n",
  "stop",
  "tools",
  "functions",
  "suffix",
  "previous_response_id",
  "best_of",
  "echo",
  "grammar",
  "__proto__",
  "toString",
];

const anyValue = fc.oneof(
  fc.constantFrom(...HARD_VALUES),
  fc.jsonValue({ maxDepth: 3 }),
  fc.double(),
  fc.integer(),
  fc.string({ unit: "binary" }),
);
const edits: fc.Arbitrary<Edit> = fc.oneof(
  { weight: 5, arbitrary: anyValue.map((value): Edit => ({ kind: "replace", value })) },
  { weight: 2, arbitrary: fc.constant<Edit>({ kind: "remove" }) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.oneof(fc.constantFrom(...FIELDS), fc.string()), anyValue)
      .map(([key, value]): Edit => ({ kind: "add", key, value })),
  },
);
const requests = fc.constantFrom(...Object.keys(BODIES)).chain((path) =>
  fc
    .array(fc.tuple(fc.constantFrom(...pathsIn(BODIES[path])), edits), { minLength: 0, maxLength: 3 })
    .map((changes) => ({
      path,
      body: changes.reduce<unknown>((body, [at, edit]) => edited(body, at, edit), BODIES[path]),
    })),
);

/** What went wrong, or undefined. */
function judge(
  path: string,
  { status, headers, text, json }: Awaited<ReturnType<TestServer["post"]>>,
): string | undefined {
  if (status === 200)
    return headers.get("content-type")?.startsWith("text/event-stream") === true
      ? judgeStream(text)
      : json === undefined
        ? "no JSON"
        : undefined;
  if (status < 400 || status >= 500) return `status ${status}`;
  const { error } = json ?? {};
  if (path.startsWith("/v1/messages"))
    return json?.type === "error" && typeof error?.type === "string" && typeof error?.message === "string"
      ? undefined
      : "not Anthropic's shape";
  const isShaped =
    typeof error?.message === "string" &&
    typeof error?.type === "string" &&
    typeof error?.code === "string" &&
    "param" in error;
  return isShaped ? undefined : "not OpenAI's shape";
}

function judgeStream(text: string): string | undefined {
  if (/"server_error"|"api_error"|internal_error|response\.failed/.test(text)) return "a stream that failed";
  return /\[DONE\]|message_stop|response\.(?:completed|incomplete)/.test(text) ? undefined : "a stream without an end";
}

test("the bodies that are changed are right", async () => {
  for (const [path, body] of Object.entries(BODIES)) {
    const answer = await served.post(path, body);
    expect([path, answer.status, judge(path, answer)]).toEqual([path, 200, undefined]);
  }
});

test("a changed request is answered or refused, and nothing is left of it", async () => {
  await fc.assert(
    fc.asyncProperty(requests, async ({ path, body }) => {
      const [answer, health] = await Promise.all([
        served.post(path, JSON.stringify(body) ?? "null"),
        served.get("/health"),
      ]);
      expect(judge(path, answer)).toBeUndefined();
      expect(health.status).toBe(200);
    }),
    { numRuns: FULL_RUN ? 400 : 150 },
  );
  await until(() => served.model.running === 0);
  expect(served.grammar.open).toBe(0);
  expect(served.log).toEqual([]);
});

test("changed bytes are answered or refused", async () => {
  const byteEdits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...Object.keys(BODIES)), byteEdits, async (path, changes) => {
      const bytes = Buffer.from(JSON.stringify(BODIES[path]));
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
      expect(judge(path, await served.post(path, bytes))).toBeUndefined();
    }),
    { numRuns: FULL_RUN ? 200 : 100 },
  );
  expect((await served.get("/health")).status).toBe(200);
});

test("the largest lists of the wrong things are refused in one go", async () => {
  await using roomy = await startServer();
  const many = Array.from({ length: 200_000 }, () => 0);
  for (const [path, body] of Object.entries(BODIES)) {
    for (const field of Object.keys(body)) {
      const answer = await roomy.post(path, { ...body, [field]: many });
      expect([path, field, judge(path, answer)]).toEqual([path, field, undefined]);
    }
  }
});
