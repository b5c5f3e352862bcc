// Converts arguments that a model wrote as plain text, key by key, to JSON. The tool's schema determines the type of
// each value; without a type, a value that is valid JSON is used as JSON. Values keep their spelling, so that no number
// loses a digit.

import { isPlainObject, parsedJson } from "../../plain-object.js";
import { JsonScanner } from "./json-scanner.js";
import { pythonCollection } from "./literal-parser.js";
import type { ChatTool } from "../message.js";

/** An argument as the model wrote it. */
export interface GivenArgument {
  readonly key: string;
  readonly value: string;
  /** Whether the model said that the value is a text. */
  readonly isText?: boolean;
}

/** Type names of JSON Schema; "integer" counts as "number". */
type Types = ReadonlySet<string>;

const PYTHON_WORDS: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ["True", true],
  ["False", false],
  ["None", null],
]);

/** The arguments as the JSON text of an object; undefined if they exceed the limits of a call. */
export function typedArguments(given: readonly GivenArgument[], tool: ChatTool | undefined): string | undefined {
  // The last of equal keys wins, as with JSON.parse.
  const spelled = new Map<string, string>();
  for (const argument of given) spelled.set(argument.key, typedArgument(argument, tool));
  const json = `{${Array.from(spelled, ([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
  const scanner = new JsonScanner();
  scanner.scan(json, 0);
  return scanner.state === "whole" ? json : undefined;
}

/** The value of one argument as JSON text. */
export function typedArgument({ key, value, isText = false }: GivenArgument, tool: ChatTool | undefined): string {
  const root = tool?.parameters ?? {};
  const { properties } = root;
  const schema = isPlainObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined;
  const allowed = allowedTypes(schema, root, { left: MAX_VISITS });
  return isText && (allowed === undefined || allowed.has("string"))
    ? JSON.stringify(value)
    : spelledValue(value, allowed);
}

function spelledValue(text: string, allowed: Types | undefined): string {
  const trimmed = text.trim();
  const value = parsedJson(trimmed);
  const mayBeText = allowed?.has("string") === true;
  if (value !== undefined && (!mayBeText || (typeof value !== "string" && allows(allowed, value)))) return trimmed;
  return (allowed === undefined || mayBeText ? undefined : pythonValue(trimmed, allowed)) ?? JSON.stringify(text);
}

/** The templates of Seed-OSS and Qwen3-Coder show values of earlier calls as Python prints them. */
function pythonValue(text: string, allowed: Types): string | undefined {
  const word = PYTHON_WORDS.get(text);
  if (word !== undefined) return allows(allowed, word) ? String(word) : undefined;
  const type = text.startsWith("[") ? "array" : text.startsWith("{") ? "object" : undefined;
  return type !== undefined && allowed.has(type) ? pythonCollection(text) : undefined;
}

function allows(types: Types, value: unknown): boolean {
  const type = typeOf(value);
  return types.has(type) || (type === "integer" && types.has("number"));
}

type Root = Readonly<Record<string, unknown>>;

/** What is left of the schemas that may be visited for one value: references may be circular, or multiply. */
interface Visits {
  left: number;
}

const MAX_VISITS = 256;

/** The types that a schema allows; undefined if it allows all. */
function allowedTypes(schema: unknown, root: Root, visits: Visits): Types | undefined {
  if (!isPlainObject(schema) || visits.left-- <= 0) return undefined;
  const inside = (branches: unknown): Types | undefined => branchTypes(branches, root, visits);
  const { $ref: reference } = schema;
  const types =
    namedTypes(schema["type"]) ??
    valueTypes(schema) ??
    inside(schema["anyOf"]) ??
    inside(schema["oneOf"]) ??
    (typeof reference === "string" ? allowedTypes(definition(reference, root), root, visits) : undefined) ??
    // Of schemas that all apply, the first that says something about the type.
    firstTypes(schema["allOf"], root, visits);
  return types !== undefined && schema["nullable"] === true ? new Set([...types, "null"]) : types;
}

function namedTypes(type: unknown): Types | undefined {
  const names = (Array.isArray(type) ? type : [type]).filter((name): name is string => typeof name === "string");
  return names.length === 0 ? undefined : new Set(names);
}

function valueTypes(schema: Readonly<Record<string, unknown>>): Types | undefined {
  const values: unknown = Object.hasOwn(schema, "const") ? [schema["const"]] : schema["enum"];
  return Array.isArray(values) && values.length > 0 ? new Set(values.map(typeOf)) : undefined;
}

/** The schema that a reference inside the tool's schema leads to. */
function definition(reference: string, root: Root): unknown {
  if (!reference.startsWith("#")) return undefined;
  return reference
    .slice(1)
    .split("/")
    .filter((name) => name !== "")
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>(
      (value, name) => (isPlainObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
      root,
    );
}

function firstTypes(schemas: unknown, root: Root, visits: Visits): Types | undefined {
  if (!Array.isArray(schemas)) return undefined;
  for (const schema of schemas) {
    const types = allowedTypes(schema, root, visits);
    if (types !== undefined) return types;
  }
  return undefined;
}

function branchTypes(branches: unknown, root: Root, visits: Visits): Types | undefined {
  if (!Array.isArray(branches) || branches.length === 0) return undefined;
  const types = branches.map((branch) => allowedTypes(branch, root, visits));
  return types.includes(undefined) ? undefined : new Set(types.flatMap((of) => [...(of ?? [])]));
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}
