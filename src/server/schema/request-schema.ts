// Checks the fields of a request: a value of the wrong type is refused with its path; a known field that would change
// the response and is not supported is refused by name; a few fields are accepted without effect; unknown ones are
// reported, or refused if the server is strict. Invariants: null means absent; schemas transform nothing, so that
// dropped fields can be found by comparison.

import { z } from "zod";
import { isPlainObject } from "../../plain-object.js";
import { RequestError } from "../http/request-error.js";

/** Why a field is refused. */
interface Refusal {
  /** What the client can do instead. */
  readonly instead: string;
  /** Values that are accepted because they ask for the default. */
  readonly unless?: readonly unknown[];
  /** Added to the error in Anthropic's form. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The fields of a request, and what happens to those that are not supported. */
export interface RequestSchema<Body = unknown> {
  readonly fields: z.ZodType<Body>;
  /** Accepted without effect. */
  readonly withoutEffect: readonly string[];
  readonly refused: Readonly<Record<string, Refusal>>;
  /** Describes parts of a request that are skipped, such as tools of unsupported types, for the log. */
  skipped?(body: Body): readonly string[];
}

/** What happens to fields that are unknown or skipped. */
export interface FieldPolicy {
  readonly strict: boolean;
  /** Called with the unknown fields, at most a few. */
  readonly reportUnknown: (fields: readonly string[]) => void;
  /** Called with the parts that were skipped, at most a few. */
  readonly reportSkipped: (skipped: readonly string[]) => void;
}

/** Limits what one request can write to the log. */
const MAX_REPORTED_FIELDS = 16;
const MAX_SHOWN_CHARACTERS = 80;

/** Checks a body against the schema of its endpoint; throws a RequestError. */
export function readRequest<Body>(schema: RequestSchema<Body>, body: unknown, policy: FieldPolicy): Body {
  if (!isPlainObject(body)) {
    throw new RequestError(`[body] expected a JSON object, found ${kindOf(body)}`, {
      status: 400,
      code: "invalid_body",
    });
  }
  refuseUnsupported(schema, body);
  const given = Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => value !== null && !schema.withoutEffect.includes(name) && !Object.hasOwn(schema.refused, name),
    ),
  );
  const read = problemOf(schema.fields, given);
  if (!("value" in read)) throw refusal(read);
  const unknown = unknownFields(given, read.value);
  if (unknown.length > 0) {
    if (policy.strict) throw unknownRefusal(unknown[0] as string);
    policy.reportUnknown(unknown);
  }
  const skipped = schema.skipped?.(read.value) ?? [];
  if (skipped.length > 0) policy.reportSkipped(skipped.slice(0, MAX_REPORTED_FIELDS));
  return read.value;
}

function refuseUnsupported(schema: RequestSchema, body: Readonly<Record<string, unknown>>): void {
  for (const [name, { instead, unless = [], details }] of Object.entries(schema.refused)) {
    const value = body[name];
    if (!Object.hasOwn(body, name) || value === null) continue;
    if (unless.some((harmless) => JSON.stringify(harmless) === JSON.stringify(value))) continue;
    throw new RequestError(`[${name}] is not supported: ${instead}`, {
      status: 400,
      code: "unsupported_parameter",
      param: name,
      details,
    });
  }
}

function unknownRefusal(param: string): RequestError {
  return new RequestError(`[${param}] is not a known field; leave it out`, {
    status: 400,
    code: "unknown_parameter",
    param,
  });
}

type Issue = z.core.$ZodIssue;

/** What is wrong with a value, and where. */
export interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/**
 * What is wrong with a value. Of the members of a union, the one that matched furthest, or whose only problem is the
 * size, is assumed to be what the client meant.
 */
export function problemOf<Value>(schema: z.ZodType<Value>, value: unknown): { readonly value: Value } | Problem {
  const parsed = schema.safeParse(value, { error: describeIssue });
  if (parsed.success) return { value: parsed.data };
  const [first] = parsed.error.issues;
  if (first === undefined) throw new RangeError("a value that is refused has a problem");
  return furthest(first);
}

function refusal({ path, message }: Problem): RequestError {
  const param = fieldName(path);
  return new RequestError(param === "" ? `[body] ${message}` : `[${param}] ${message}`, {
    status: 400,
    code: "invalid_value",
    ...(param === "" ? {} : { param }),
  });
}

function furthest(issue: Issue): Problem {
  const own: Problem = { path: issue.path, message: issue.message };
  if (issue.code !== "invalid_union") return own;
  const inner = issue.errors
    .flatMap(([first]) =>
      first === undefined
        ? []
        : [{ ...furthest(first), isOfSize: first.code === "too_big" || first.code === "too_small" }],
    )
    .filter(({ path, isOfSize }) => path.length > 0 || isOfSize)
    .sort((one, other) => other.path.length - one.path.length);
  const [deepest] = inner;
  return deepest === undefined ? own : { path: [...issue.path, ...deepest.path], message: deepest.message };
}

/** A path as clients read it: `messages[0].role`. */
function fieldName(path: readonly PropertyKey[]): string {
  let name = "";
  for (const part of path) {
    if (typeof part === "number") name += `[${part}]`;
    else name += `${name === "" ? "" : "."}${shorten(String(part))}`;
  }
  return name;
}

function describeIssue(issue: z.core.$ZodRawIssue): string {
  const found = kindOf(issue.input);
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined
        ? `expected ${article(issue.expected)}, found nothing`
        : `expected ${article(issue.expected)}, found ${found}`;
    case "too_big":
      return `expected at most ${String(issue.maximum)}${unitOf(issue.origin)}, found more`;
    case "too_small":
      return `expected at least ${String(issue.minimum)}${unitOf(issue.origin)}, found less`;
    case "invalid_value":
      return `expected ${issue.values.map((value: unknown) => JSON.stringify(value)).join(" or ")}, found ${found}`;
    case "invalid_union":
      return issue.discriminator === undefined
        ? `no supported form of this field matches, found ${found}`
        : describeVariant(issue.input, issue.discriminator);
    case "invalid_key":
      return "a key is not valid";
    default:
      return typeof issue.message === "string" ? issue.message : `is not valid, found ${found}`;
  }
}

function describeVariant(value: unknown, discriminator: string): string {
  const found = isPlainObject(value) && Object.hasOwn(value, discriminator) ? kindOf(value[discriminator]) : "nothing";
  return found === "nothing" ? `expected a ${discriminator}, found nothing` : `${found} is not supported here`;
}

function unitOf(origin: string): string {
  if (origin === "string") return " characters";
  if (origin === "array") return " elements";
  return origin === "object" || origin === "record" ? " entries" : "";
}

function article(kind: string): string {
  if (kind === "int") return "a whole number";
  return /^[aeio]/.test(kind) ? `an ${kind}` : `a ${kind}`;
}

/**
 * Describes a value in a message: its kind, or the value itself if it is short, because prompts do not belong in
 * messages.
 */
function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return value.length <= MAX_SHOWN_CHARACTERS ? JSON.stringify(value) : "a long text";
  return String(value);
}

function shorten(text: string): string {
  return text.length <= MAX_SHOWN_CHARACTERS ? text : `${text.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}

/** The paths of fields that the schema dropped. */
function unknownFields(
  given: unknown,
  kept: unknown,
  path: readonly PropertyKey[] = [],
  found: string[] = [],
): readonly string[] {
  if (given === kept || found.length >= MAX_REPORTED_FIELDS) return found;
  if (Array.isArray(given) && Array.isArray(kept)) {
    for (const [index, value] of given.entries()) unknownFields(value, kept[index], [...path, index], found);
  } else if (isPlainObject(given) && isPlainObject(kept)) {
    for (const [name, value] of Object.entries(given)) {
      if (Object.hasOwn(kept, name)) unknownFields(value, kept[name], [...path, name], found);
      else if (found.length < MAX_REPORTED_FIELDS) found.push(fieldName([...path, name]));
    }
  }
  return found;
}
