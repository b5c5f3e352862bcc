// Responses as JSON. Small ones are written by the framework; large ones (log-probabilities of thousands of tokens,
// vectors of many inputs) are written in turns, so that other requests do not wait for them.

import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import type { Divisible, TimeShare } from "./time-share.js";

/** A response whose large parts are JSON already. */
export class JsonParts {
  readonly chunks: readonly Uint8Array[];

  private constructor(chunks: readonly Uint8Array[]) {
    this.chunks = chunks;
  }

  /** A response of a head, which has at least one field, and further fields as JSON. */
  static of(head: object, parts: Readonly<Record<string, Uint8Array>>): JsonParts {
    const chunks: Uint8Array[] = [Buffer.from(JSON.stringify(head).slice(0, -1))];
    for (const [name, bytes] of Object.entries(parts)) chunks.push(Buffer.from(`,${JSON.stringify(name)}:`), bytes);
    return new JsonParts([...chunks, Buffer.from("}")]);
  }
}

/** Values that are written at once, in a fraction of a millisecond. */
const LIGHT = 2048;
/** Characters of text that count as one value. */
const CHARACTERS_OF_VALUE = 32;
const CHUNK_CHARACTERS = 65_536;
/** Larger responses are streamed. */
const SMALL_BYTES = 65_536;

/** Whether a value is too large to be processed at once. */
export function isLarge(value: unknown): boolean {
  return weigh(value, LIGHT) >= LIGHT;
}

/** The result of a handler for the framework: the response itself if it is small, its JSON otherwise. */
export async function jsonResponse(
  reply: FastifyReply,
  answer: object,
  share: TimeShare,
  signal: AbortSignal,
): Promise<object> {
  if (!(answer instanceof JsonParts) && !isLarge(answer)) return answer;
  const chunks = answer instanceof JsonParts ? answer.chunks : await share.run(jsonChunks(answer), signal);
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
  reply.type("application/json; charset=utf-8");
  if (bytes <= SMALL_BYTES) return Buffer.concat(chunks);
  reply.header("content-length", bytes);
  return Readable.from(chunks, { objectMode: false });
}

/** A value's JSON, as JSON.stringify writes it, in chunks. */
export function* jsonChunks(value: unknown): Divisible<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  let text = "";
  for (const part of jsonTexts(value)) {
    text += part;
    if (text.length < CHUNK_CHARACTERS) continue;
    chunks.push(Buffer.from(text));
    text = "";
    yield;
  }
  chunks.push(Buffer.from(text));
  return chunks;
}

function* jsonTexts(value: unknown): Generator<string, void, undefined> {
  if (!isLarge(value) || typeof value !== "object" || value === null) yield JSON.stringify(value) ?? "null";
  else if (Array.isArray(value)) yield* listTexts(value);
  else yield* objectTexts(value);
}

/** Writes small elements together. */
function* listTexts(list: readonly unknown[]): Generator<string, void, undefined> {
  let separator = "[";
  for (let start = 0; start < list.length;) {
    let weight = 0;
    let end = start;
    while (end < list.length && weight < LIGHT) weight += weigh(list[end++], LIGHT);
    yield separator;
    if (end === start + 1) yield* jsonTexts(list[start]);
    else yield JSON.stringify(list.slice(start, end)).slice(1, -1);
    separator = ",";
    start = end;
  }
  yield "]";
}

function* objectTexts(object: object): Generator<string, void, undefined> {
  let separator = "{";
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue;
    yield `${separator}${JSON.stringify(name)}:`;
    yield* jsonTexts(value);
    separator = ",";
  }
  yield separator === "{" ? "{}" : "}";
}

/** Counts the values in a value, long texts as several, up to `most`. */
function weigh(value: unknown, most: number): number {
  if (typeof value === "string") return 1 + value.length / CHARACTERS_OF_VALUE;
  if (typeof value !== "object" || value === null) return 1;
  let weight = 1;
  const values: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (const own of values) {
    if (weight >= most) break;
    weight += weigh(own, most - weight);
  }
  return weight;
}
