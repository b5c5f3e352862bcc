// The global names of every template, as Transformers and Jinja define them.

import { checkList } from "./bounded-realm.js";
import { strftime } from "./strftime.js";
import { merged, pairsOf } from "./dict-methods.js";
import { printed } from "./printing.js";
import { Scope } from "./scope.js";
import { Text } from "./text.js";
import { type CallArguments, Callable, List, Namespace, type TemplateValue } from "./values.js";

interface Globals {
  readonly scope: Scope;
  /** Whether the template has read the time. */
  timed(): boolean;
}

/**
 * The global names for one rendering: the constants, `range`, `namespace`, `dict`, `raise_exception` and
 * `strftime_now`.
 */
export function createGlobals(): Globals {
  let timed = false;
  const strftimeNow = new Callable("strftime_now", ({ positional: [format] }) => {
    timed = true;
    const { value, borders } = printed(format ?? null);
    const date = strftime(new Date(), value);
    return borders.length === 0 ? Text.trusted(date) : Text.untrusted(date);
  });
  const values: Readonly<Record<string, TemplateValue>> = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
    raise_exception: new Callable("raise_exception", ({ positional: [message] }) => {
      throw new Error(printed(message ?? null).value);
    }),
    range: new Callable("range", range),
    namespace: new Callable("namespace", namespace),
    dict: new Callable("dict", (given) => merged(undefined, givenPairs(given))),
    strftime_now: strftimeNow,
  };
  const scope = new Scope();
  for (const [name, value] of Object.entries(values)) scope.set(name, value);
  return { scope, timed: () => timed };
}

/** Names may come from a dictionary (`**`), so none of them is trusted. */
function givenPairs({
  positional: [source],
  named,
}: CallArguments): readonly (readonly [TemplateValue, TemplateValue])[] {
  return [
    ...(source === undefined ? [] : pairsOf(source)),
    ...Array.from(named, ([name, value]) => [Text.untrusted(name), value] as const),
  ];
}

function namespace(given: CallArguments): Namespace {
  const made = new Namespace();
  for (const [name, value] of givenPairs(given)) made.members.set(printed(name).value, value);
  return made;
}

function range({ positional }: CallArguments): List {
  const numbers = positional.map((value) => (typeof value === "number" ? value : Number.NaN));
  const [start, stop] = numbers.length === 1 ? [0, numbers[0]] : [numbers[0], numbers[1]];
  const step = numbers[2] ?? 1;
  if (step === 0 || ![start, stop, step].every(Number.isFinite))
    throw new Error("range() takes whole numbers, and no step of zero");
  const count = Math.max(0, Math.ceil((stop - start) / step));
  checkList(count);
  return new List(Array.from({ length: count }, (_, at) => start + at * step));
}
