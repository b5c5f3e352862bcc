// Members, items and slices of values. Jinja asks for `a.b` as an attribute first and as a key then, and for `a["b"]` the
// other way round, which matters for dictionaries with a key such as "items".

import { checkList } from "./bounded-realm.js";
import { dictMethod } from "./dict-methods.js";
import { isEqual } from "./operators.js";
import { Text, TextBuilder } from "./text.js";
import { codePoints, textMethod } from "./text-methods.js";
import { Callable, Dict, isSequence, List, Namespace, orElse, Tuple, Undefined, type TemplateValue } from "./values.js";

/**
 * The value of `object.name`: a method if the type has one of this name, otherwise the item under this key, otherwise
 * undefined.
 */
export function attribute(object: TemplateValue, name: string): TemplateValue {
  return method(object, name) ?? orElse(keyed(object, Text.trusted(name)), new Undefined(name));
}

/** The value of `object[key]`: the item under this key, otherwise a method of this name, otherwise undefined. */
export function item(object: TemplateValue, key: TemplateValue): TemplateValue {
  const found = keyed(object, key);
  if (found !== undefined) return found;
  return (
    (key instanceof Text ? method(object, key.value) : undefined) ??
    new Undefined(key instanceof Text ? key.value : undefined)
  );
}

function keyed(object: TemplateValue, key: TemplateValue): TemplateValue | undefined {
  if (object instanceof Dict) return object.get(key);
  if (object instanceof Namespace) return key instanceof Text ? object.members.get(key.value) : undefined;
  if (typeof key !== "number" && typeof key !== "boolean") return undefined;
  if (isSequence(object)) return object.items.at(Number(key));
  if (object instanceof Text) return character(object, Number(key));
  return undefined;
}

function method(object: TemplateValue, name: string): Callable | undefined {
  if (object instanceof Text) return textMethod(object, name);
  if (object instanceof Dict) return dictMethod(object, name);
  return object instanceof List ? listMethod(object, name) : undefined;
}

function listMethod(list: List, name: string): Callable | undefined {
  switch (name) {
    case "append":
      return new Callable(name, ({ positional: [added] }) => {
        checkList(list.items.length + 1);
        list.items.push(orElse(added, new Undefined()));
        return null;
      });
    case "pop":
      return new Callable(name, ({ positional: [place = -1] }) => {
        const at = typeof place === "number" && place < 0 ? list.items.length + place : place;
        if (typeof at !== "number" || !(at in list.items)) throw new Error("pop() expected a place in the list");
        return orElse(list.items.splice(at, 1)[0], new Undefined());
      });
    case "index":
      return new Callable(name, ({ positional: [wanted] }) => {
        const place = list.items.findIndex((each) => isEqual(each, orElse(wanted, new Undefined())));
        if (place < 0) throw new Error("the list has no such item");
        return place;
      });
    case "count":
      return new Callable(
        name,
        ({ positional: [wanted] }) =>
          list.items.filter((each) => isEqual(each, orElse(wanted, new Undefined()))).length,
      );
    default:
      return undefined;
  }
}

function character(text: Text, index: number): Text | undefined {
  const count = codePoints(text, text.length);
  const at = index < 0 ? count + index : index;
  if (at < 0 || at >= count) return undefined;
  const [start] = places(text, [at]);
  return text.slice(start, start + String.fromCodePoint(text.value.codePointAt(start) as number).length);
}

/** The UTF-16 indices of code points, whose numbers are in rising order. */
function places(text: Text, numbers: readonly number[]): readonly number[] {
  if (codePoints(text, text.length) === text.length) return numbers;
  const found: number[] = [];
  let [number, at] = [0, 0];
  for (const wanted of numbers) {
    for (; number < wanted && at < text.length; number++) at += (text.value.codePointAt(at) as number) > 0xffff ? 2 : 1;
    found.push(at);
  }
  return found;
}

interface SliceBounds {
  readonly start: TemplateValue;
  readonly stop: TemplateValue;
  readonly step: TemplateValue;
}

/**
 * The value of `object[start:stop:step]` for lists, tuples and strings, with Python's rules for negative and missing
 * bounds; undefined for other types.
 */
export function slice(object: TemplateValue, bounds: SliceBounds): TemplateValue {
  const step = bound(bounds.step) ?? 1;
  if (step === 0) throw new Error("slice step cannot be zero");
  if (isSequence(object)) {
    const items = sliced(
      object.items.length,
      bounds,
      step,
      (indices) => indices.map((at) => object.items[at]),
      (from, to) => object.items.slice(from, to),
    );
    return object instanceof List ? new List(items) : new Tuple(items);
  }
  if (!(object instanceof Text)) return new Undefined();
  return sliced(
    codePoints(object, object.length),
    bounds,
    step,
    (indices) => picked(object, indices),
    (from, to) => {
      const [start, stop] = places(object, [from, Math.max(from, to)]);
      return object.slice(start, stop);
    },
  );
}

function picked(text: Text, indices: readonly number[]): Text {
  const starts = [
    ...places(
      text,
      Array.from({ length: codePoints(text, text.length) }, (_, at) => at),
    ),
    text.length,
  ];
  const builder = new TextBuilder();
  for (const at of indices) builder.add(text.slice(starts[at], starts[at + 1]));
  return builder.finish();
}

/** The items that a slice takes by Python's rules. */
function sliced<Result>(
  length: number,
  { start, stop }: SliceBounds,
  step: number,
  pick: (indices: readonly number[]) => Result,
  cut: (from: number, to: number) => Result,
): Result {
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1];
  const place = (value: number | undefined, fallback: number): number =>
    value === undefined ? fallback : Math.min(Math.max(value < 0 ? value + length : value, low), high);
  const from = place(bound(start), step > 0 ? low : high);
  const to = place(bound(stop), step > 0 ? high : low);
  if (step === 1) return cut(from, Math.max(from, to));
  const count = Math.max(0, Math.ceil((to - from) / step));
  return pick(Array.from({ length: count }, (_, at) => from + at * step));
}

function bound(value: TemplateValue): number | undefined {
  if (value === null || value instanceof Undefined) return undefined;
  if (typeof value === "number" || typeof value === "boolean") return Number(value);
  throw new Error("slice indices must be integers or None");
}
