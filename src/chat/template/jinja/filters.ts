// Jinja's filters on single values, and the table of all filters. As in Jinja, a filter for texts converts any value to
// text; undefined is empty.

import { checkList } from "./bounded-realm.js";
import { Given } from "./arguments.js";
import { items, sorted } from "./dict-methods.js";
import { formatted } from "./operators.js";
import { json, type JsonStyle, PLAIN_JSON, printed } from "./printing.js";
import { SEQUENCE_FILTERS } from "./sequence-filters.js";
import { joined, Text } from "./text.js";
import { capitalized, codePoints, lines, replaced, stripped } from "./text-methods.js";
import {
  Dict,
  Float,
  isNumeric,
  isSequence,
  isTrue,
  numberOf,
  orElse,
  Tuple,
  typeName,
  Undefined,
  type TemplateValue,
  valueOf,
} from "./values.js";

/** What filters can call: `apply` another filter by name, `judge` a test. */
export interface FilterContext {
  apply(name: string, value: TemplateValue, given: Given): TemplateValue;
  judge(name: string, value: TemplateValue, given: Given): boolean;
  /** `a.b` as a template would read it. */
  attribute(value: TemplateValue, name: TemplateValue): TemplateValue;
}

/** A filter: takes the value before the `|`, and the arguments in parentheses. */
export type Filter = (value: TemplateValue, given: Given, context: FilterContext) => TemplateValue;

const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...SEQUENCE_FILTERS,
  ["safe", (value) => value],
  ["string", (value) => printed(value)],
  ["upper", (value) => printed(value).map((text) => text.toUpperCase())],
  ["lower", (value) => printed(value).map((text) => text.toLowerCase())],
  ["title", (value) => titledWords(printed(value))],
  ["capitalize", (value) => capitalized(printed(value))],
  ["trim", (value, given) => stripped(printed(value), given.text(0, "chars"), "both")],
  [
    "replace",
    (value, given) =>
      replaced(printed(value), given.neededText(0, "old"), given.neededText(1, "new"), given.integer(2, "count") ?? -1),
  ],
  ["indent", (value, given) => indented(printed(value), given)],
  ["escape", (value) => escaped(printed(value))],
  ["e", (value) => escaped(printed(value))],
  ["format", (value, given) => formatted(printed(value), given.rest(0))],
  ["wordcount", (value) => printed(value).value.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0],
  ["length", (value) => length(value)],
  ["count", (value) => length(value)],
  ["default", (value, given) => defaulted(value, given)],
  ["d", (value, given) => defaulted(value, given)],
  ["items", (value) => entries(value)],
  ["dictsort", (value, given) => (value instanceof Dict ? sorted(value, given) : refused("dictsort", value))],
  ["tojson", (value, given) => json(value, jsonStyle(given))],
  ["fromjson", (value) => (value instanceof Text ? valueOf(JSON.parse(value.value), () => false) : value)],
  ["int", (value, given) => integer(value) ?? orElse(given.value(0, "default"), 0)],
  ["float", (value, given) => float(value) ?? orElse(given.value(0, "default"), new Float(0))],
  ["bool", (value) => isTrue(value)],
  ["abs", (value) => absolute(value)],
  ["round", (value, given) => rounded(value, given)],
  ["attr", (value, given, context) => context.attribute(value, given.neededText(0, "name"))],
]);

/** Looks up a filter; an unknown name throws the error message that Jinja has for it. */
export function filterNamed(name: string): Filter {
  const filter = FILTERS.get(name);
  if (filter === undefined) throw new Error(`No filter named '${name}'`);
  return filter;
}

function refused(name: string, value: TemplateValue): never {
  throw new Error(`${name} cannot be of '${typeName(value)}'`);
}

function length(value: TemplateValue): number {
  if (value instanceof Text) return codePoints(value, value.length);
  if (isSequence(value)) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof Undefined) return 0;
  throw new Error(`object of type '${typeName(value)}' has no len()`);
}

function defaulted(value: TemplateValue, given: Given): TemplateValue {
  const instead = orElse(given.value(0, "default_value"), Text.trusted(""));
  return value instanceof Undefined || (given.flag(1, "boolean") && !isTrue(value)) ? instead : value;
}

function entries(value: TemplateValue): TemplateValue {
  if (value instanceof Dict) return items(value);
  return value instanceof Undefined ? new Tuple([]) : refused("items", value);
}

function jsonStyle(given: Given): JsonStyle {
  // As a positional argument, Transformers has ensure_ascii first, and Jinja the indent.
  const first = given.value(0);
  const indent = typeof first === "number" || first instanceof Text ? first : given.value(1, "indent");
  const width =
    indent === undefined || indent === null || indent instanceof Undefined ? undefined : indentOf(indent).value;
  const separators = given.value(2, "separators");
  const [itemSeparator, keySeparator] = isPair(separators)
    ? separators.items.map((text) => printed(text).value)
    : [width === undefined ? ", " : ",", ": "];
  const ensureAscii = first === true || given.flag(-1, "ensure_ascii");
  return {
    ...PLAIN_JSON,
    indent: width,
    ensureAscii,
    sortKeys: given.flag(3, "sort_keys"),
    itemSeparator,
    keySeparator,
  };
}

function isPair(value: TemplateValue | undefined): value is Tuple {
  return value !== undefined && isSequence(value) && value.items.length === 2;
}

function indentOf(width: TemplateValue): Text {
  if (width instanceof Text) return width;
  if (typeof width !== "number") throw new Error(`expected a width as a number or a text, found '${typeName(width)}'`);
  return Text.trusted(" ".repeat(Math.max(0, width)));
}

function indented(text: Text, given: Given): Text {
  const by = indentOf(given.value(0, "width") ?? 4);
  const blank = given.flag(2, "blank");
  // Jinja appends a line break to keep the last line, even an empty one.
  const all = lines(Text.concat(text, Text.trusted("\n")));
  checkList(all.length);
  const first = given.flag(1, "first");
  const changed = all.map((line, place) =>
    (place > 0 && (blank || line.length > 0)) || (place === 0 && first) ? Text.concat(by, line) : line,
  );
  return joined(changed, Text.trusted("\n"));
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};

function escaped(text: Text): Text {
  return text.map((stretch) => stretch.replaceAll(/[&<>"']/g, (character) => ESCAPES[character]));
}

/** Differs from the method of that name: Jinja splits words at spaces, hyphens and brackets. */
function titledWords(text: Text): Text {
  return text.map((stretch) =>
    stretch.replaceAll(/[^-\s({[<]+/g, (word) => (word[0] as string).toUpperCase() + word.slice(1).toLowerCase()),
  );
}

function integer(value: TemplateValue): number | undefined {
  if (isNumeric(value)) return Number.isFinite(numberOf(value)) ? Math.trunc(numberOf(value)) : undefined;
  const number = value instanceof Text ? parsedNumber(value.value) : undefined;
  return number === undefined ? undefined : Math.trunc(number);
}

function float(value: TemplateValue): Float | undefined {
  if (isNumeric(value)) return new Float(numberOf(value));
  const number = value instanceof Text ? parsedNumber(value.value) : undefined;
  return number === undefined ? undefined : new Float(number);
}

function parsedNumber(text: string): number | undefined {
  return /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/.test(text) ? Number(text) : undefined;
}

function absolute(value: TemplateValue): TemplateValue {
  if (!isNumeric(value)) return refused("abs", value);
  return value instanceof Float ? new Float(Math.abs(value.value)) : Math.abs(Number(value));
}

function rounded(value: TemplateValue, given: Given): TemplateValue {
  if (!isNumeric(value)) return refused("round", value);
  const scale = 10 ** (given.integer(0, "precision") ?? 0);
  const method = given.text(1, "method")?.value ?? "common";
  const number = numberOf(value) * scale;
  const whole = method === "ceil" ? Math.ceil(number) : method === "floor" ? Math.floor(number) : halfToEven(number);
  return method === "common" && !(value instanceof Float) ? whole / scale : new Float(whole / scale);
}

function halfToEven(number: number): number {
  const floor = Math.floor(number);
  if (number - floor !== 0.5) return Math.round(number);
  return floor % 2 === 0 ? floor : floor + 1;
}
