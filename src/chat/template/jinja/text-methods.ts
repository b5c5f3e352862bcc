// The methods of Python's strings that templates use. Each result keeps the provenance of its characters.

import { checkList } from "./bounded-realm.js";
import { Given } from "./arguments.js";
import { printed } from "./printing.js";
import { joined, Text, TextBuilder } from "./text.js";
import { Callable, iterated, List, orElse, Tuple, typeName, Undefined, type TemplateValue } from "./values.js";

type Method = (text: Text, given: Given) => TemplateValue;

const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["upper", (text) => text.map((stretch) => stretch.toUpperCase())],
  ["lower", (text) => text.map((stretch) => stretch.toLowerCase())],
  ["title", (text) => titled(text)],
  ["capitalize", (text) => capitalized(text)],
  ["strip", (text, given) => stripped(text, given.text(0, "chars"), "both")],
  ["lstrip", (text, given) => stripped(text, given.text(0, "chars"), "start")],
  ["rstrip", (text, given) => stripped(text, given.text(0, "chars"), "end")],
  ["startswith", (text, given) => affixes(given).some((affix) => text.value.startsWith(affix))],
  ["endswith", (text, given) => affixes(given).some((affix) => text.value.endsWith(affix))],
  [
    "removeprefix",
    (text, given) => (text.value.startsWith(given.neededText(0).value) ? text.slice(given.neededText(0).length) : text),
  ],
  [
    "removesuffix",
    (text, given) =>
      text.value.endsWith(given.neededText(0).value) ? text.slice(0, text.length - given.neededText(0).length) : text,
  ],
  ["split", (text, given) => new List(split(text, given.text(0, "sep"), given.integer(1, "maxsplit") ?? -1))],
  ["rsplit", (text, given) => new List(rightSplit(text, given.text(0, "sep"), given.integer(1, "maxsplit") ?? -1))],
  ["splitlines", (text) => new List(lines(text))],
  [
    "partition",
    (text, given) => partitioned(text, given.neededText(0), (sought) => text.value.indexOf(sought), "head"),
  ],
  [
    "rpartition",
    (text, given) => partitioned(text, given.neededText(0), (sought) => text.value.lastIndexOf(sought), "tail"),
  ],
  [
    "replace",
    (text, given) =>
      replaced(text, given.neededText(0, "old"), given.neededText(1, "new"), given.integer(2, "count") ?? -1),
  ],
  ["join", (text, given) => joined(iterated(orElse(given.value(0), new Undefined())).map(joinable), text)],
  ["find", (text, given) => codePoints(text, text.value.indexOf(given.neededText(0).value))],
  ["rfind", (text, given) => codePoints(text, text.value.lastIndexOf(given.neededText(0).value))],
  ["index", (text, given) => codePoints(text, present(text.value.indexOf(given.neededText(0).value)))],
  ["count", (text, given) => occurrences(text, given.neededText(0).value, Infinity).length],
  ["format", (text, given) => fieldsFilled(text, given)],
  ["isdigit", (text) => /^\p{Nd}+$/u.test(text.value)],
  ["isnumeric", (text) => /^\p{N}+$/u.test(text.value)],
  ["isalpha", (text) => /^\p{L}+$/u.test(text.value)],
  ["isalnum", (text) => /^[\p{L}\p{N}]+$/u.test(text.value)],
  ["isspace", (text) => /^\s+$/u.test(text.value)],
  ["isupper", (text) => /\p{L}/u.test(text.value) && text.value === text.value.toUpperCase()],
  ["islower", (text) => /\p{L}/u.test(text.value) && text.value === text.value.toLowerCase()],
]);

/** A method of Python's `str`, bound to a string; undefined if templates have no method of this name. */
export function textMethod(text: Text, name: string): Callable | undefined {
  const method = METHODS.get(name);
  return method === undefined ? undefined : new Callable(name, (given) => method(text, new Given(name, given)));
}

function titled(text: Text): Text {
  return text.map((stretch) => stretch.replaceAll(/\p{L}+/gu, titleCase));
}

/** The first letter in upper case, the others in lower case; ß becomes Ss. */
function titleCase(word: string): string {
  const first = String.fromCodePoint(word.codePointAt(0) ?? 0);
  const large = first.toUpperCase();
  const start = String.fromCodePoint(large.codePointAt(0) ?? 0);
  return word === "" ? word : start + large.slice(start.length).toLowerCase() + word.slice(first.length).toLowerCase();
}

/** The first character in title case, the others in lower case: Python's `capitalize()`. */
export function capitalized(text: Text): Text {
  if (text.length === 0) return text;
  const first = String.fromCodePoint(text.value.codePointAt(0) as number).length;
  return Text.concat(
    text.slice(0, first).map(titleCase),
    text.slice(first).map((tail) => tail.toLowerCase()),
  );
}

/** Python's white space, except four rare separators; JavaScript's includes U+FEFF and lacks U+0085. */
const SPACE = /[\s\u0085]/;

/**
 * Without the given characters at one end or both, by default without white space: `strip()`, `lstrip()` and
 * `rstrip()`.
 */
export function stripped(text: Text, characters: Text | undefined, side: "both" | "start" | "end"): Text {
  const set = characters === undefined ? undefined : new Set(characters.value);
  const goes = (character: string): boolean =>
    set === undefined ? SPACE.test(character) && character !== "\ufeff" : set.has(character);
  let [from, to] = [0, text.length];
  if (side !== "end") while (from < to && goes(text.value[from])) from++;
  if (side !== "start") while (to > from && goes(text.value[to - 1])) to--;
  return text.slice(from, to);
}

function affixes(given: Given): readonly string[] {
  const value = given.value(0);
  const all = value instanceof Tuple || value instanceof List ? value.items : [value];
  return all.map((affix) => {
    if (affix instanceof Text) return affix.value;
    throw new Error(`expected a text or a tuple of texts, found ${affix === undefined ? "nothing" : typeName(affix)}`);
  });
}

/** Splits a text at a separator; if that is undefined, at runs of white space, ignoring those at the ends. */
export function split(text: Text, separator: Text | undefined, most: number): Text[] {
  if (separator === undefined) return splitAtSpace(text, most);
  const parts: Text[] = [];
  let from = 0;
  for (const at of occurrences(text, separator.value, most < 0 ? Infinity : most)) {
    parts.push(text.slice(from, at));
    from = at + separator.length;
  }
  parts.push(text.slice(from));
  return parts;
}

function splitAtSpace(text: Text, most: number): Text[] {
  const parts: Text[] = [];
  const words = /[^\s\u0085]+/g;
  for (let match = words.exec(text.value); match !== null; match = words.exec(text.value)) {
    if (most >= 0 && parts.length === most) {
      parts.push(stripped(text.slice(match.index), undefined, "end"));
      break;
    }
    parts.push(text.slice(match.index, words.lastIndex));
    checkList(parts.length);
  }
  return parts;
}

function rightSplit(text: Text, separator: Text | undefined, most: number): Text[] {
  const all = split(text, separator, -1);
  if (most < 0 || all.length <= most + 1) return all;
  const tail = all.slice(all.length - most);
  const cut = tail.reduce((sum, part) => sum + part.length, 0) + (separator?.length ?? 1) * most;
  return [text.slice(0, Math.max(0, text.length - cut)), ...tail];
}

function occurrences(text: Text, sought: string, most: number): readonly number[] {
  if (sought === "") throw new Error("empty separator");
  const found: number[] = [];
  for (
    let at = text.value.indexOf(sought);
    at >= 0 && found.length < most;
    at = text.value.indexOf(sought, at + sought.length)
  ) {
    found.push(at);
    checkList(found.length);
  }
  return found;
}

/** The lines of a text without their line breaks: Python's `splitlines()`, which knows more line breaks than `\n`. */
export function lines(text: Text): Text[] {
  const parts: Text[] = [];
  let from = 0;
  for (const { 0: end, index } of text.value.matchAll(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/g)) {
    parts.push(text.slice(from, index));
    from = index + end.length;
    checkList(parts.length);
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}

function partitioned(text: Text, separator: Text, find: (sought: string) => number, whole: "head" | "tail"): Tuple {
  const at = find(separator.value);
  const none = Text.trusted("");
  if (at < 0) return new Tuple(whole === "head" ? [text, none, none] : [none, none, text]);
  return new Tuple([text.slice(0, at), text.slice(at, at + separator.length), text.slice(at + separator.length)]);
}

/** Replaces up to `most` occurrences; all if it is negative. */
export function replaced(text: Text, old: Text, by: Text, most: number): Text {
  const limit = most < 0 ? Infinity : most;
  const builder = new TextBuilder();
  let [from, done] = [0, 0];
  // An empty text occurs between any two characters, and at both ends.
  const step = (at: number): number =>
    old.length > 0 ? at + old.length : at + ((text.value.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
  for (let at = text.value.indexOf(old.value); at >= 0 && at <= text.length && done < limit; done++) {
    builder.add(text.slice(from, at)).add(by);
    from = at + old.length;
    const next = step(at);
    at = next > text.length ? -1 : text.value.indexOf(old.value, next);
  }
  return builder.add(text.slice(from)).finish();
}

function joinable(value: TemplateValue): Text {
  if (value instanceof Text) return value;
  throw new Error(`join() expected texts, found ${typeName(value)}`);
}

function present(at: number): number {
  if (at < 0) throw new Error("substring not found");
  return at;
}

/** `"{} of {name}".format(…)` with positions and names, without format codes. */
function fieldsFilled(text: Text, given: Given): Text {
  const builder = new TextBuilder();
  let [from, next] = [0, 0];
  for (const { 0: field, 1: name, index } of text.value.matchAll(/\{\{|\}\}|\{(\w*)\}/g)) {
    builder.add(text.slice(from, index));
    from = index + field.length;
    if (name === undefined) builder.add(text.slice(index, index + 1));
    else {
      const place = name === "" ? next++ : /^\d+$/.test(name) ? Number(name) : -1;
      const value = place >= 0 ? given.value(place) : given.value(-1, name);
      if (value === undefined) throw new Error(`format() was given nothing for {${name}}`);
      builder.add(printed(value));
    }
  }
  return builder.add(text.slice(from)).finish();
}

const SURROGATES = /[\ud800-\udfff]/;

/** The number of code points before an index: Python counts these, JavaScript UTF-16 units. */
export function codePoints({ value }: Text, to: number): number {
  if (to < 0 || !SURROGATES.test(value)) return to;
  let count = 0;
  for (let at = 0; at < to; count++) at += (value.codePointAt(at) as number) > 0xffff ? 2 : 1;
  return count;
}
