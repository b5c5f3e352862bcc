// Requests that nobody sends by mistake: too large, too deep, too many, of the wrong type, or made to take long. Each has
// to be refused with a status of 400 to 499.

export interface HostileRequest {
  readonly path: string;
  /** Bytes go as they are, everything else as JSON. */
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "Hi" }];

const chat = (fields: object): HostileRequest => ({
  path: CHAT,
  body: { model: "fable", messages, max_tokens: 8, ...fields },
});
const bytes = (text: string | Uint8Array): HostileRequest => ({
  path: CHAT,
  body: typeof text === "string" ? Buffer.from(text) : text,
});
/** What JSON.stringify would not write. */
const field = (name: string, json: string): HostileRequest =>
  bytes(`{"model":"fable","messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"${name}":${json}}`);
const saying = (content: unknown): HostileRequest => chat({ messages: [{ role: "user", content }] });
const schema = (value: unknown): HostileRequest =>
  chat({ response_format: { type: "json_schema", json_schema: { name: "s", schema: value } } });
const completion = (fields: object): HostileRequest => ({
  path: "/v1/completions",
  body: { model: "fable", prompt: "Hi", ...fields },
});
const nested = (levels: number, open: string, close: string): string => `${open.repeat(levels)}${close.repeat(levels)}`;

function deepSchema(levels: number): object {
  let value: object = { type: "string" };
  for (let level = 0; level < levels; level++) value = { type: "array", items: value };
  return value;
}

/** Each `allOf` of two `anyOf`s multiplies their branches. */
function explodingSchema(): object {
  const choice = (from: number): object => ({
    anyOf: Array.from({ length: 12 }, (_, index) => ({
      type: "object",
      properties: { [`p${from + index}`]: { type: "string" } },
    })),
  });
  return { allOf: Array.from({ length: 8 }, (_, index) => choice(index * 12)) };
}

export const HOSTILE_REQUESTS: Readonly<Record<string, HostileRequest>> = {
  nothing: bytes(""),
  "no JSON": bytes("{messages"),
  "a list": bytes("[]"),
  null: bytes("null"),
  "bytes that are not UTF-8": bytes(
    Buffer.concat([
      Buffer.from(`{"messages":[{"role":"user","content":"`),
      Buffer.from([0xff, 0xfe, 0xc3, 0x28]),
      Buffer.from(`"}]}`),
    ]),
  ),
  "a body of 9 MiB": bytes(`{"messages":"${"x".repeat(9 * 2 ** 20)}"}`),
  "a million brackets": bytes(nested(1_000_000, "[", "]")),
  "a million objects in one another": bytes(`${`{"a":`.repeat(1_000_000)}1${"}".repeat(1_000_000)}`),
  "a million values": field("logit_bias", `[${"1,".repeat(1_000_000)}1]`),
  "another content type": { path: CHAT, body: { messages }, headers: { "content-type": "text/plain" } },
  "headers without end": { path: CHAT, body: { messages }, headers: { "x-much": "x".repeat(60_000) } },
  "a path with dots": { path: "/v1/models/..%2f..%2fetc%2fpasswd/x", body: {} },
  "a prototype for a body": bytes(`{"__proto__":{"messages":[{"role":"user","content":"Hi"}]}}`),

  "n of a billion": chat({ n: 1_000_000_000 }),
  "n below 0": chat({ n: -1 }),
  "half an n": chat({ n: 1.5 }),
  "n past what a number holds": field("n", "1e400"),
  "max_tokens below 0": chat({ max_tokens: -5 }),
  "max_tokens of text": chat({ max_tokens: "8" }),
  "temperature below 0": chat({ temperature: -0.1 }),
  "temperature without end": field("temperature", "1e400"),
  "top_p of 2": chat({ top_p: 2 }),
  "top_k far below 0": chat({ top_k: -2 }),
  "a penalty of text": chat({ presence_penalty: "much" }),
  "a seed of text": chat({ seed: "x" }),
  "too many rivals": chat({ logprobs: true, top_logprobs: 1000 }),
  "bias of a token below 0": chat({ logit_bias: { "-1": 5 } }),
  "bias of a token that is not there": chat({ logit_bias: { "99999999": 5 } }),
  "bias of a word": chat({ logit_bias: { fox: 5 } }),
  "bias past what is allowed": chat({ logit_bias: { "5": 1e9 } }),
  "bias of too many": chat({ logit_bias: Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [index, 1])) }),
  "too many stops": chat({ stop: Array.from({ length: 100 }, (_, index) => `${index}`) }),
  "a stop that is too long": chat({ stop: "x".repeat(100_000) }),
  "a stream of text": chat({ stream: "yes" }),

  "no messages": chat({ messages: [] }),
  "messages of text": chat({ messages: "Hi" }),
  "too many messages": chat({ messages: Array.from({ length: 5000 }, () => messages[0]) }),
  "a role that is none": chat({ messages: [{ role: "king", content: "Hi" }] }),
  "content of numbers": saying([1, 2, 3]),
  "an image": saying([{ type: "image_url", image_url: { url: "file:///etc/passwd" } }]),
  "a million letters": saying("a".repeat(1_000_000)),
  "half a million spaces": saying(" ".repeat(500_000)),
  "half a million line ends": saying("\n".repeat(500_000)),
  "many digits": saying("1234567890".repeat(60_000)),
  "marks on one letter": saying(`e${"\u0301".repeat(300_000)}`),
  "faces joined": saying("\u{1f469}\u200d".repeat(100_000)),
  "control tokens by name, too many": saying("<|endoftext|>".repeat(40_000)),
  "more letters than are taken": saying("a".repeat(3_000_000)),
  "template variables that are none": chat({ chat_template_kwargs: [1] }),

  "too many tools": chat({
    tools: Array.from({ length: 1000 }, (_, index) => ({ type: "function", function: { name: `t${index}` } })),
  }),
  "a tool without a name": chat({ tools: [{ type: "function", function: { name: "" } }] }),
  "a tool's name with a line end": chat({ tools: [{ type: "function", function: { name: "a\nb" } }] }),
  "a tool that is not there": chat({
    tools: [{ type: "function", function: { name: "a" } }],
    tool_choice: { type: "function", function: { name: "b" } },
  }),
  "a call required and no tools": chat({ tool_choice: "required" }),
  "a tool whose schema cannot be": chat({
    tools: [
      {
        type: "function",
        function: { name: "a", parameters: { type: "object", properties: { x: { type: "quux" } } } },
      },
    ],
    tool_choice: "required",
  }),

  "a schema that is itself": schema({ $ref: "#" }),
  "a schema that refers in a ring": schema({
    $ref: "#/$defs/a",
    $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } },
  }),
  "a schema that refers to the network": schema({ $ref: "https://example.com/schema.json" }),
  "a schema of no type": schema({ type: "quux" }),
  "a deep schema": schema(deepSchema(100)),
  "a schema that multiplies": schema(explodingSchema()),
  "a schema with a hundred thousand values": schema({ enum: Array.from({ length: 100_000 }, (_, index) => index) }),
  "a schema that nothing satisfies": schema({ allOf: [{ type: "string" }, { type: "number" }] }),
  "a schema with a number of items below 0": schema({ type: "array", minItems: -1 }),
  "an expression with brackets without end": chat({ regex: nested(2000, "(", ")") }),
  "an expression that is not closed": chat({ regex: "(a" }),
  "an expression that looks ahead": chat({ regex: "(?=a)b" }),
  "an expression that is too long": chat({ regex: "a".repeat(70_000) }),
  "a grammar that begins with itself": chat({ grammar: "root ::= root" }),
  "a grammar without a root": chat({ grammar: `other ::= "a"` }),
  "a grammar with a rule that is not there": chat({ grammar: "root ::= missing" }),
  "a grammar with brackets without end": chat({ grammar: `root ::= ${nested(5000, "(", ")")}` }),
  "a grammar that is too long": chat({ grammar: `root ::= "${"a".repeat(70_000)}"` }),

  "prompts without end": completion({ prompt: Array.from({ length: 5000 }, () => "Hi") }),
  "a prompt of nothing": completion({ prompt: [] }),
  "tokens below 0": completion({ prompt: [-1] }),
  "tokens that are not there": completion({ prompt: [99_999_999] }),
  "half a token": completion({ prompt: [1.5] }),
  "tokens without end": completion({ prompt: Array.from({ length: 200_000 }, () => 5) }),
  "best_of below n": completion({ n: 2, best_of: 1 }),
  "an embedding of nothing": { path: "/v1/embeddings", body: { model: "fable", input: [] } },
  "an embedding of much": { path: "/v1/embeddings", body: { model: "fable", input: "a ".repeat(400_000) } },
  "embeddings without end": {
    path: "/v1/embeddings",
    body: { model: "fable", input: Array.from({ length: 5000 }, () => "a") },
  },
  "a message without a length": { path: "/v1/messages", body: { model: "fable", messages } },
  "a message of a length below 0": { path: "/v1/messages", body: { model: "fable", messages, max_tokens: -1 } },
  "a response that goes on": {
    path: "/v1/responses",
    body: { model: "fable", input: "Hi", previous_response_id: "resp_1" },
  },
  "tokenizing too much": { path: "/tokenize", body: { content: "a".repeat(3_000_000) } },
  "text of tokens that are not there": { path: "/detokenize", body: { tokens: [-1, 1e9] } },
  "a model with a long name": chat({ model: "m".repeat(100_000) }),
};

/** What looks costly and is not: each is answered in its form. */
export const HARMLESS_REQUESTS: Readonly<Record<string, HostileRequest>> = {
  "a schema with hundreds of optional properties": schema({
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`p${index}`, { type: "integer" }])),
  }),
  "a schema whose pattern counts": schema({ type: "string", pattern: "((((a{1,9999}){1,9999}){1,9999}){1,9999})" }),
  "an expression that counts": chat({ regex: "(((a{1,9999}){1,9999}){1,9999}){1,9999}" }),
};
