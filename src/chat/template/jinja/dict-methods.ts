// The methods of Python's dictionaries that templates use. A rendering has its own copy of all values, so changes end
// with it.

import { Given } from "./arguments.js";
import { compared } from "./operators.js";
import { Text } from "./text.js";
import { Callable, Dict, iterated, List, orElse, Tuple, Undefined, type TemplateValue } from "./values.js";

type Method = (dict: Dict, given: Given) => TemplateValue;

const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    "get",
    (dict, given) =>
      orElse(dict.get(orElse(given.value(0, "key"), new Undefined())), orElse(given.value(1, "default"), null)),
  ],
  ["items", (dict) => items(dict)],
  ["keys", (dict) => new List(dict.keys())],
  ["values", (dict) => new List(dict.values())],
  ["copy", (dict) => merged(dict, [])],
  [
    "update",
    (dict, given) => {
      for (const [key, value] of pairsOf(given.value(0) ?? new Dict())) dict.set(key, value);
      return null;
    },
  ],
  [
    "pop",
    (dict, given) => {
      const key = orElse(given.value(0), new Undefined());
      const value = dict.has(key) ? dict.get(key) : given.value(1);
      if (value === undefined) throw new Error("pop() expected a key of the dictionary");
      dict.delete(key);
      return value;
    },
  ],
]);

/** A method of Python's `dict`, bound to a dictionary; undefined if templates have no method of this name. */
export function dictMethod(dict: Dict, name: string): Callable | undefined {
  const method = METHODS.get(name);
  return method === undefined ? undefined : new Callable(name, (given) => method(dict, new Given(name, given)));
}

/** The key-value pairs of a dictionary as tuples, in insertion order: `dict.items()`. */
export function items(dict: Dict): List {
  return new List(dict.entries().map((entry) => new Tuple(entry)));
}

/** A new dictionary with further pairs; later ones win. */
export function merged(dict: Dict | undefined, pairs: Iterable<readonly [TemplateValue, TemplateValue]>): Dict {
  const result = new Dict();
  for (const [key, value] of dict?.entries() ?? []) result.set(key, value);
  for (const [key, value] of pairs) result.set(key, value);
  return result;
}

/** The pairs of an argument of `dict(…)` and `namespace(…)`: a dictionary, or a list of pairs. */
export function pairsOf(value: TemplateValue): readonly (readonly [TemplateValue, TemplateValue])[] {
  if (value instanceof Dict) return value.entries();
  return iterated(value).map((pair) => {
    const parts = iterated(pair);
    if (parts.length !== 2) throw new Error("expected a dictionary, or pairs of a key and a value");
    return [parts[0], parts[1]];
  });
}

/** The filter `dictsort`: key-value pairs sorted by key or value, ignoring case unless `case_sensitive` is set. */
export function sorted(dict: Dict, given: Given): List {
  const by = given.text(1, "by")?.value ?? "key";
  if (by !== "key" && by !== "value") throw new Error("dictsort can be by 'key' or by 'value'");
  const caseSensitive = given.flag(0, "case_sensitive");
  const order = (entry: Tuple): TemplateValue => folded(entry.items[by === "key" ? 0 : 1], caseSensitive);
  const sign = given.flag(2, "reverse") ? -1 : 1;
  return new List(
    items(dict).items.sort((left, right) => sign * compared(order(left as Tuple), order(right as Tuple))),
  );
}

/** A sort key; Jinja sorts texts case-insensitively by default. */
export function folded(value: TemplateValue, caseSensitive: boolean): TemplateValue {
  return value instanceof Text && !caseSensitive ? Text.trusted(value.value.toLowerCase()) : value;
}
