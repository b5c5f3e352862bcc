// One request of a soak: what it asks for, how it reads (patiently, slowly, or not to the end), and what it must get.
// Invariant: whatever a client draws, exactly one answer is right, and anything else is reported in words.

import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { violation } from "../../../src/grammar/testing/schema-validator.js";
import type { Dice } from "../../support/dice.js";

export type Manner = "patient" | "slow" | "leaving";

export interface SoakRequest {
  /** For the report. */
  readonly kind: string;
  readonly path: string;
  readonly body: object;
  readonly status: number;
  /** What is wrong with a whole answer, or undefined. */
  readonly wrong: (text: string) => string | undefined;
}

const SUBJECTS = [
  "a fox",
  "the king's daughter",
  "three brothers",
  "a golden bird",
  "the old miller",
  "a talking fish",
];
const CHAT = { path: "/v1/chat/completions", status: 200 } as const;
const MAX_TOKENS = 120;
const UNIT_TOLERANCE = 1e-4;

interface Choice {
  readonly index: number;
  readonly text?: string;
  readonly message?: {
    readonly content: string | null;
    readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
  };
  readonly delta?: { readonly content?: string | null };
  readonly finish_reason: string | null;
}

interface Answer {
  readonly choices: readonly Choice[];
  readonly usage?: { readonly completion_tokens: number } | null;
}

/** One of many thousands, so that no server knows them all; short enough that the model always gets to its end. */
function drawSchema(dice: Dice): Readonly<Record<string, unknown>> {
  const properties = {
    name: { type: "string", maxLength: 4 + dice.below(12) },
    age: { type: "integer", minimum: 0, maximum: 100 + dice.below(900) },
    kind: { enum: ["fox", "bird", dice.pick(SUBJECTS)] },
  };
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

/** A chat whose answer follows a schema that is drawn. */
export function drawStructured(dice: Dice, model: string): SoakRequest {
  const schema = drawSchema(dice);
  const messages = [{ role: "user", content: `Who is ${dice.pick(SUBJECTS)} of ${dice.below(1000)}?` }];
  return {
    ...CHAT,
    kind: "JSON schema",
    body: {
      model,
      messages,
      seed: dice.below(1_000_000),
      max_tokens: 300,
      response_format: { type: "json_schema", json_schema: { name: "who", schema } },
    },
    wrong: (text) => wrongSchema(schema, answerOf(text).choices[0].message?.content ?? ""),
  };
}

/** A chat that is to call a tool whose schema is drawn. */
function drawToolCall(dice: Dice, model: string): SoakRequest {
  const schema = drawSchema(dice);
  const messages = [{ role: "user", content: `Meet ${dice.pick(SUBJECTS)} of ${dice.below(1000)}.` }];
  const tools = [{ type: "function", function: { name: "meet", parameters: schema } }];
  return {
    ...CHAT,
    kind: "tool",
    body: { model, messages, seed: dice.below(1_000_000), max_tokens: 300, tools, tool_choice: "required" },
    wrong: (text) => wrongSchema(schema, answerOf(text).choices[0].message?.tool_calls?.[0].function.arguments ?? ""),
  };
}

/** A request drawn at random, for one of the models. */
export function drawRequest(dice: Dice, models: readonly string[]): SoakRequest {
  const model = dice.pick(models);
  const messages = [
    ...(dice.below(2) === 0
      ? []
      : [{ role: "system", content: "You tell old stories, and you tell them well, to whoever asks for one." }]),
    {
      role: "user",
      content: `Tell me ${dice.below(1000)} words about ${dice.pick(SUBJECTS)}${" and a road".repeat(dice.below(20))}.`,
    },
  ];
  const seed = dice.below(1_000_000);
  const body = { model, messages, seed, max_tokens: 1 + dice.below(MAX_TOKENS) };
  return dice.pick<() => SoakRequest>([
    () => ({ ...CHAT, kind: "chat", body, wrong: (text) => wrongChoices(text, 1) }),
    () => ({ ...CHAT, kind: "chat of several", body: { ...body, n: 3 }, wrong: (text) => wrongChoices(text, 3) }),
    () => ({
      ...CHAT,
      kind: "chat, streamed",
      body: { ...body, stream: true, stream_options: { include_usage: true } },
      wrong: (text) => wrongStream(text, 1),
    }),
    () => ({
      ...CHAT,
      kind: "chat of several, streamed with much beside it",
      body: {
        ...body,
        n: 6,
        stream: true,
        stream_options: { include_usage: true },
        logprobs: true,
        top_logprobs: 20,
        ignore_eos: true,
      },
      wrong: (text) => wrongStream(text, 6),
    }),
    () => drawStructured(dice, model),
    () => drawToolCall(dice, model),
    () => ({
      kind: "completion",
      path: "/v1/completions",
      body: { model, prompt: ["Once upon a time", "The fox"], seed, max_tokens: 20 },
      status: 200,
      wrong: (text) => wrongChoices(text, 2),
    }),
    () => ({
      kind: "embedding",
      path: "/v1/embeddings",
      body: { model, input: [messages[0].content, "fox"] },
      status: 200,
      wrong: wrongEmbedding,
    }),
    () => ({
      kind: "message",
      path: "/v1/messages",
      body: { model, messages: messages.slice(-1), max_tokens: 40 },
      status: 200,
      wrong: (text) => (text.includes(`"stop_reason":"`) ? undefined : text),
    }),
    () => ({
      kind: "response, streamed",
      path: "/v1/responses",
      body: { model, input: "Hello", max_output_tokens: 40, stream: true },
      status: 200,
      wrong: wrongResponse,
    }),
    () => ({
      ...CHAT,
      kind: "refused: value",
      body: { ...body, temperature: -1 },
      status: 400,
      wrong: wrongRefusal("temperature"),
    }),
    () => ({
      ...CHAT,
      kind: "refused: model",
      body: { ...body, model: "nobody" },
      status: 404,
      wrong: wrongRefusal("nobody"),
    }),
    () => ({
      ...CHAT,
      kind: "refused: length",
      body: { ...body, messages: [{ role: "user", content: "long ".repeat(3000) }] },
      status: 400,
      wrong: wrongRefusal("context_length_exceeded"),
    }),
  ])();
}

/** Undefined where all was as it should be. */
export async function perform(
  url: string,
  { kind, path, body, status, wrong }: SoakRequest,
  manner: Manner,
  dice: Dice,
): Promise<string | undefined> {
  const problem = (what: string): string => `${kind}, ${manner}: ${what}`;
  try {
    const request = post(`${url}${path}`, body);
    if (manner === "leaving" && dice.below(2) === 0) {
      // Before there is an answer: in the queue, or while the prompt is read.
      await pause(dice.below(60));
      request.destroy();
      return undefined;
    }
    const response = await responseOf(request);
    const text = await (manner === "leaving"
      ? readAndLeave(response, dice)
      : readAll(response, manner === "slow" ? dice : undefined));
    if (response.statusCode !== status)
      return problem(`status ${response.statusCode}, and not ${status}: ${text?.slice(0, 400)}`);
    const found = text === undefined ? undefined : wrong(text);
    return found === undefined ? undefined : problem(found.slice(0, 400));
  } catch (error) {
    return problem(String(error));
  }
}

function post(url: string, body: object): ClientRequest {
  const request = httpRequest(url, { method: "POST", agent: false, headers: { "content-type": "application/json" } });
  // One that is left on purpose says so too; the others are seen by who waits for the response.
  request.on("error", () => {});
  request.end(JSON.stringify(body));
  return request;
}

function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => request.once("response", resolve).once("error", reject));
}

/** With dice it rests between reads, longer than the server's buffers last. */
async function readAll(response: IncomingMessage, dice: Dice | undefined): Promise<string> {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) {
    text += chunk;
    if (dice !== undefined && dice.below(8) === 0) await pause(dice.below(200));
  }
  return text;
}

/** Reads a part of it, does not read for a while, and is gone. */
async function readAndLeave(response: IncomingMessage, dice: Dice): Promise<undefined> {
  const parts = dice.below(20);
  let read = 0;
  for await (const _ of response) {
    if (read++ < parts) continue;
    await pause(dice.below(400));
    break;
  }
  response.destroy();
  return undefined;
}

const answerOf = (text: string): Answer => JSON.parse(text) as Answer;

function wrongChoices(text: string, count: number): string | undefined {
  const { choices, usage } = answerOf(text);
  if (choices.length !== count) return `${choices.length} choices instead of ${count}`;
  if (choices.some(({ finish_reason: reason }) => reason !== "stop" && reason !== "length"))
    return `a choice without an end: ${text}`;
  return (usage?.completion_tokens ?? 0) > 0 ? undefined : "no tokens were written";
}

function wrongStream(text: string, count: number): string | undefined {
  if (!text.endsWith("data: [DONE]\n\n")) return `no end: …${text.slice(-200)}`;
  const events = text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => answerOf(line.slice("data: ".length)));
  const ended = events
    .flatMap(({ choices }) => choices)
    .filter(({ finish_reason: reason }) => reason === "stop" || reason === "length");
  if (new Set(ended.map(({ index }) => index)).size !== count || ended.length !== count)
    return `${ended.length} ends instead of ${count}`;
  return (events.at(-1)?.usage?.completion_tokens ?? 0) > 0 ? undefined : "no usage at the end";
}

function wrongSchema(schema: Readonly<Record<string, unknown>>, text: string): string | undefined {
  try {
    return violation(schema, schema, JSON.parse(text));
  } catch {
    return `not JSON: ${text}`;
  }
}

function wrongEmbedding(text: string): string | undefined {
  const { data } = JSON.parse(text) as { readonly data: readonly { readonly embedding: readonly number[] }[] };
  const lengths = data.map(({ embedding }) => Math.hypot(...embedding));
  return lengths.length === 2 && lengths.every((length) => Math.abs(length - 1) < UNIT_TOLERANCE)
    ? undefined
    : `lengths ${lengths}`;
}

function wrongResponse(text: string): string | undefined {
  return /^event: response\.(?:completed|incomplete)$/m.test(text) ? undefined : `no end: …${text.slice(-200)}`;
}

function wrongRefusal(word: string): (text: string) => string | undefined {
  return (text) => (text.includes(`"error"`) && text.includes(word) ? undefined : text);
}
