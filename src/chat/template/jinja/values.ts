// The values of a template, with Python's distinctions: integers and floats, tuples and lists, undefined and None; keys
// of a dictionary may be numbers. Texts, keys included, carry their provenance (see text.ts).

import { checkList } from "./bounded-realm.js";
import { Text } from "./text.js";

/** A plain number is an integer; floats have a class of their own. */
export type TemplateValue =
  | Undefined
  | null
  | boolean
  | number
  | Float
  | Text
  | List
  | Tuple
  | Dict
  | Namespace
  | Callable;

/** An undefined value. Like Jinja's ChainableUndefined: its members are undefined, too. */
export class Undefined {
  readonly name: string | undefined;

  constructor(name?: string) {
    this.name = name;
  }
}

/** A Python `float`; plain JavaScript numbers are `int`, because the two print differently (1.0 and 1). */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** A Python `list`; mutable, as templates call `append`. */
export class List {
  readonly items: TemplateValue[];

  constructor(items: TemplateValue[]) {
    checkList(items.length);
    this.items = items;
  }
}

/** A tuple: a list that prints with round brackets and may be a key. */
export class Tuple {
  readonly items: readonly TemplateValue[];

  constructor(items: readonly TemplateValue[]) {
    checkList(items.length);
    this.items = items;
  }
}

interface DictEntry {
  readonly key: TemplateValue;
  readonly value: TemplateValue;
}

/** A Python `dict`, in insertion order; keys are compared as in Python, so 1, 1.0 and True are the same key. */
export class Dict {
  readonly #entries = new Map<string, DictEntry>();

  get size(): number {
    return this.#entries.size;
  }

  get(key: TemplateValue): TemplateValue | undefined {
    return this.#entries.get(hashOf(key))?.value;
  }

  getText(key: string): TemplateValue | undefined {
    return this.#entries.get(`s${key}`)?.value;
  }

  has(key: TemplateValue): boolean {
    return this.#entries.has(hashOf(key));
  }

  set(key: TemplateValue, value: TemplateValue): void {
    const hash = hashOf(key);
    // As in Python, the first of equal keys stays the key.
    this.#entries.set(hash, { key: this.#entries.get(hash)?.key ?? key, value });
    checkList(this.#entries.size);
  }

  delete(key: TemplateValue): void {
    this.#entries.delete(hashOf(key));
  }

  keys(): TemplateValue[] {
    return Array.from(this.#entries.values(), ({ key }) => key);
  }

  values(): TemplateValue[] {
    return Array.from(this.#entries.values(), ({ value }) => value);
  }

  entries(): [key: TemplateValue, value: TemplateValue][] {
    return Array.from(this.#entries.values(), ({ key, value }) => [key, value]);
  }
}

/** The result of `namespace()`, the only value whose members a template can set. */
export class Namespace {
  readonly members = new Map<string, TemplateValue>();
}

/** The evaluated arguments of a call, by position and by keyword. */
export interface CallArguments {
  readonly positional: readonly TemplateValue[];
  readonly named: ReadonlyMap<string, TemplateValue>;
}

/** A value that a template can call: a global function, a macro or a bound method. */
export class Callable {
  readonly name: string;
  readonly call: (given: CallArguments) => TemplateValue;

  constructor(name: string, call: (given: CallArguments) => TemplateValue) {
    this.name = name;
    this.call = call;
  }
}

/** The value, or another one if it is absent; `??` would replace None as well. */
export function orElse(value: TemplateValue | undefined, instead: TemplateValue): TemplateValue {
  return value === undefined ? instead : value;
}

/** A hash of a key: 1, 1.0 and True are the same key. */
function hashOf(key: TemplateValue): string {
  if (key instanceof Text) return `s${key.value}`;
  if (isNumeric(key)) return `n${numberOf(key)}`;
  if (key === null) return "none";
  if (key instanceof Undefined) return "undefined";
  if (key instanceof Tuple) return `t${JSON.stringify(key.items.map(hashOf))}`;
  throw new Error(`unhashable type: '${typeName(key)}'`);
}

/** Values that Python calculates with; booleans count as 0 and 1. */
export type Numeric = boolean | number | Float;

/** Whether Python can calculate with the value; True and False are numbers. */
export function isNumeric(value: TemplateValue): value is Numeric {
  return typeof value === "number" || typeof value === "boolean" || value instanceof Float;
}

/** The JavaScript number of a numeric value; True is 1, and False is 0. */
export function numberOf(value: Numeric): number {
  return value instanceof Float ? value.value : Number(value);
}

/** Whether the value is a list or a tuple; a string is not. */
export function isSequence(value: TemplateValue): value is List | Tuple {
  return value instanceof List || value instanceof Tuple;
}

/** Python's truth value: None, undefined, zero and everything empty is false. */
export function isTrue(value: TemplateValue): boolean {
  if (value instanceof Undefined || value === null) return false;
  if (isNumeric(value)) return numberOf(value) !== 0;
  if (value instanceof Text) return value.length > 0;
  if (isSequence(value)) return value.items.length > 0;
  return value instanceof Dict ? value.size > 0 : true;
}

/** The name of the value's type in Python, for error messages. */
export function typeName(value: TemplateValue): string {
  if (value === null) return "NoneType";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number") return "int";
  if (value instanceof Float) return "float";
  if (value instanceof Text) return "str";
  if (value instanceof List) return "list";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Dict) return "dict";
  if (value instanceof Undefined) return "Undefined";
  return value instanceof Namespace ? "Namespace" : "function";
}

/** The items that a loop iterates: the keys of a dictionary, the characters of a text, nothing for undefined. */
export function iterated(value: TemplateValue): readonly TemplateValue[] {
  if (isSequence(value)) return value.items;
  if (value instanceof Dict) return value.keys();
  if (value instanceof Text) return characters(value);
  if (value instanceof Undefined) return [];
  throw new Error(`'${typeName(value)}' object is not iterable`);
}

function characters(text: Text): TemplateValue[] {
  checkList(text.length);
  const all: TemplateValue[] = [];
  let at = 0;
  for (const character of text.value) {
    all.push(text.slice(at, at + character.length));
    at += character.length;
  }
  return all;
}

/** Whether a text at this path of the variables is trusted; list indices are "*". */
export type Trust = (path: readonly string[], text: string) => boolean;

/** Converts plain data to values. */
export function valueOf(data: unknown, trusts: Trust, path: readonly string[] = []): TemplateValue {
  if (data === null || typeof data === "boolean") return data;
  if (typeof data === "string") return trusts(path, data) ? Text.trusted(data) : Text.untrusted(data);
  if (typeof data === "number") return Number.isInteger(data) ? data : new Float(data);
  if (Array.isArray(data)) return new List(data.map((item) => valueOf(item, trusts, [...path, "*"])));
  if (typeof data !== "object") return new Undefined();
  const dict = new Dict();
  for (const [key, value] of Object.entries(data))
    dict.set(Text.untrusted(key), valueOf(value, trusts, [...path, key]));
  return dict;
}
