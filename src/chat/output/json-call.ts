// Reads a tool call that is one JSON object: its name, and its arguments as the model spelled them, so that no number
// loses a digit. An object that is no call gives undefined.

import { isPlainObject, parsedJson } from "../../plain-object.js";
import type { JsonScanner } from "./json-scanner.js";

/** A tool call in JSON. */
export interface JsonCall {
  readonly name: string;
  /** The arguments as the JSON text of an object. */
  readonly arguments: string;
  readonly id: string | undefined;
}

const ARGUMENT_KEYS = ["arguments", "parameters"] as const;
const MAX_ID_CHARACTERS = 128;

/** The call in a scanned JSON object; undefined if it is none. */
export function parseJsonCall(text: string, { members }: JsonScanner): JsonCall | undefined {
  const whole = parseObject(text);
  if (whole === undefined) return undefined;
  // Some models wrap the call once more, as the APIs do.
  const inner = whole["function"];
  if (isPlainObject(inner) && typeof inner["name"] === "string") {
    return jsonCall(inner["name"], inner[argumentKey(inner)], undefined, whole["id"]);
  }
  const name = whole["name"] ?? whole["tool_name"];
  if (typeof name !== "string") return undefined;
  const key = argumentKey(whole);
  // The last of equal keys wins, as with JSON.parse.
  const place = members.findLast(({ keyStart, keyEnd }) => JSON.parse(text.slice(keyStart, keyEnd)) === key);
  return jsonCall(
    name,
    whole[key],
    place === undefined ? undefined : text.slice(place.valueStart, place.valueEnd).trim(),
    whole["id"],
  );
}

/** The call in an object whose only key is the name, `{"name": {…}}`; undefined if it is none. */
export function parseKeyedCall(text: string, { members }: JsonScanner): JsonCall | undefined {
  const whole = parseObject(text);
  const [place] = members;
  if (whole === undefined || place === undefined || members.length > 1) return undefined;
  const [name = ""] = Object.keys(whole);
  return jsonCall(name, whole[name], text.slice(place.valueStart, place.valueEnd).trim(), undefined);
}

function argumentKey(call: Readonly<Record<string, unknown>>): (typeof ARGUMENT_KEYS)[number] {
  return ARGUMENT_KEYS.find((key) => Object.hasOwn(call, key)) ?? "arguments";
}

function jsonCall(name: string, value: unknown, spelled: string | undefined, id: unknown): JsonCall | undefined {
  const text = argumentText(value, spelled);
  if (text === undefined) return undefined;
  return {
    name,
    arguments: text,
    id: typeof id === "string" && id !== "" && id.length <= MAX_ID_CHARACTERS ? id : undefined,
  };
}

function argumentText(value: unknown, spelled: string | undefined): string | undefined {
  if (value === undefined || value === null) return "{}";
  // Some models write the arguments as a string, as the APIs do.
  if (typeof value === "string") return parseObject(value) === undefined ? undefined : value.trim();
  if (!isPlainObject(value)) return undefined;
  return spelled ?? JSON.stringify(value);
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parsedJson(text);
  return isPlainObject(value) ? value : undefined;
}
