// Jinja's filters on lists and other iterable values.

import { Given, NO_ARGUMENTS } from "./arguments.js";
import { folded } from "./dict-methods.js";
import type { Filter, FilterContext } from "./filters.js";
import { binary, compared, isEqual } from "./operators.js";
import { printed } from "./printing.js";
import { EMPTY_TEXT, joined, Text } from "./text.js";
import { Dict, isTrue, iterated, List, orElse, Tuple, Undefined, type TemplateValue } from "./values.js";

/**
 * The filters on iterable values (`first`, `join`, `map`, `sort`, `groupby` and others) by name, for the table of all
 * filters.
 */
export const SEQUENCE_FILTERS: readonly (readonly [string, Filter])[] = [
  ["list", (value) => new List([...iterated(value)])],
  ["first", (value) => orElse(iterated(value)[0], new Undefined())],
  ["last", (value) => orElse(iterated(value).at(-1), new Undefined())],
  [
    "reverse",
    (value) =>
      value instanceof Text
        ? joined(iterated(value).toReversed() as Text[], EMPTY_TEXT)
        : new List([...iterated(value)].reverse()),
  ],
  ["join", (value, given, context) => joinedItems(value, given, context)],
  ["sort", (value, given, context) => sortedItems(value, given, context)],
  ["unique", (value, given, context) => unique(value, given, context)],
  ["min", (value, given, context) => extreme(value, given, context, -1)],
  ["max", (value, given, context) => extreme(value, given, context, 1)],
  ["sum", (value, given, context) => total(value, given, context)],
  ["map", (value, given, context) => mapped(value, given, context)],
  ["select", (value, given, context) => chosen(value, given, context, { byAttribute: false, keeps: true })],
  ["reject", (value, given, context) => chosen(value, given, context, { byAttribute: false, keeps: false })],
  ["selectattr", (value, given, context) => chosen(value, given, context, { byAttribute: true, keeps: true })],
  ["rejectattr", (value, given, context) => chosen(value, given, context, { byAttribute: true, keeps: false })],
  ["batch", (value, given) => batched(value, given)],
  ["groupby", (value, given, context) => grouped(value, given, context)],
];

type Getter = (item: TemplateValue) => TemplateValue;

/** Reads an attribute path such as "a.b.0"; numbers are indices. */
function getter(name: TemplateValue | undefined, context: FilterContext): Getter {
  if (name === undefined || name === null || name instanceof Undefined) return (item) => item;
  if (!(name instanceof Text)) return (item) => context.attribute(item, name);
  const keys = name.value
    .split(".")
    .map((part): TemplateValue => (/^\d+$/.test(part) ? Number(part) : Text.trusted(part)));
  return (item) => keys.reduce<TemplateValue>((value, key) => context.attribute(value, key), item);
}

function joinedItems(value: TemplateValue, given: Given, context: FilterContext): Text {
  const get = getter(given.value(1, "attribute"), context);
  const separator = given.value(0, "d") ?? EMPTY_TEXT;
  return joined(
    iterated(value).map((item) => printed(get(item))),
    printed(separator),
  );
}

function sortedItems(value: TemplateValue, given: Given, context: FilterContext): List {
  const get = getter(given.value(2, "attribute"), context);
  const caseSensitive = given.flag(1, "case_sensitive");
  const sign = given.flag(0, "reverse") ? -1 : 1;
  const keyed = iterated(value).map((item) => ({ item, key: folded(get(item), caseSensitive) }));
  return new List(keyed.sort((left, right) => sign * compared(left.key, right.key)).map(({ item }) => item));
}

function unique(value: TemplateValue, given: Given, context: FilterContext): List {
  const get = getter(given.value(1, "attribute"), context);
  const caseSensitive = given.flag(0, "case_sensitive");
  const seen = new Dict();
  const kept: TemplateValue[] = [];
  for (const item of iterated(value)) {
    const key = folded(get(item), caseSensitive);
    if (seen.has(key)) continue;
    seen.set(key, true);
    kept.push(item);
  }
  return new List(kept);
}

function extreme(value: TemplateValue, given: Given, context: FilterContext, sign: 1 | -1): TemplateValue {
  const get = getter(given.value(1, "attribute"), context);
  const caseSensitive = given.flag(0, "case_sensitive");
  const key = (item: TemplateValue): TemplateValue => folded(get(item), caseSensitive);
  const [first, ...rest] = iterated(value);
  return first === undefined
    ? new Undefined()
    : rest.reduce((best, item) => (sign * compared(key(item), key(best)) > 0 ? item : best), first);
}

function total(value: TemplateValue, given: Given, context: FilterContext): TemplateValue {
  const get = getter(given.value(0, "attribute"), context);
  return iterated(value).reduce<TemplateValue>(
    (sum, item) => binary("+", sum, get(item)),
    given.value(1, "start") ?? 0,
  );
}

function mapped(value: TemplateValue, given: Given, context: FilterContext): List {
  if (!isTrue(value)) return new List([]);
  const attribute = given.value(-1, "attribute");
  if (attribute !== undefined) {
    const get = getter(attribute, context);
    const instead = given.value(-1, "default");
    return new List(
      iterated(value).map((item) => {
        const found = get(item);
        return found instanceof Undefined && instead !== undefined ? instead : found;
      }),
    );
  }
  const name = given.neededText(0).value;
  const rest = new Given(name, { positional: given.rest(1), named: new Map() });
  return new List(iterated(value).map((item) => context.apply(name, item, rest)));
}

function chosen(
  value: TemplateValue,
  given: Given,
  context: FilterContext,
  { byAttribute, keeps }: { readonly byAttribute: boolean; readonly keeps: boolean },
): List {
  if (!isTrue(value)) return new List([]);
  const get = byAttribute ? getter(given.value(0), context) : getter(undefined, context);
  const place = byAttribute ? 1 : 0;
  const test = given.text(place)?.value;
  const rest = new Given(test ?? "", { positional: given.rest(place + 1), named: new Map() });
  const judge = (item: TemplateValue): boolean =>
    test === undefined ? isTrue(get(item)) : context.judge(test, get(item), rest);
  return new List(iterated(value).filter((item) => judge(item) === keeps));
}

function batched(value: TemplateValue, given: Given): List {
  const size = given.integer(0, "linecount") ?? 0;
  if (size < 1) throw new Error("batch needs a size of one or more");
  const fill = given.value(1, "fill_with");
  const all = iterated(value);
  const batches: TemplateValue[] = [];
  for (let from = 0; from < all.length; from += size) {
    const batch = all.slice(from, from + size);
    batches.push(
      new List(
        fill === undefined || batch.length === size
          ? [...batch]
          : [...batch, ...Array.from({ length: size - batch.length }, () => fill)],
      ),
    );
  }
  return new List(batches);
}

function grouped(value: TemplateValue, given: Given, context: FilterContext): List {
  const get = getter(given.value(0, "attribute"), context);
  const groups: { readonly key: TemplateValue; readonly items: TemplateValue[] }[] = [];
  const sorted = sortedItems(
    value,
    new Given("sort", { ...NO_ARGUMENTS, named: new Map([["attribute", given.value(0, "attribute") ?? null]]) }),
    context,
  );
  for (const item of sorted.items) {
    const key = get(item);
    const last = groups.at(-1);
    if (last !== undefined && isEqual(last.key, key)) last.items.push(item);
    else groups.push({ key, items: [item] });
  }
  return new List(groups.map(({ key, items }) => new Tuple([key, new List(items)])));
}
