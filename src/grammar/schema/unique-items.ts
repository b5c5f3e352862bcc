// Arrays of unique items that come from a list of values: a rule for each set of values that are left. Longer lists
// keep their order, with a rule for each value and number of items.

import { choice, type Expression, NOTHING, sequence, text } from "../expression.js";
import { grammarInvalid } from "../limits.js";
import type { SchemaContext } from "./schema-grammar.js";
import type { SchemaObject } from "./pointer.js";

interface Counts {
  readonly min: number;
  readonly max: number;
}

/** Lists up to this length may be in any order; there are two to this power sets of remaining values. */
const ANY_ORDER = 7;

/** The JSON arrays of a schema with `uniqueItems`, whose items have to come from a list of values. */
export function distinctItems(
  context: SchemaContext,
  schema: SchemaObject,
  { min, max }: Counts,
  place: string,
): Expression {
  const values =
    schema["items"] === undefined || "prefixItems" in schema
      ? undefined
      : context.listed(schema["items"], `${place}.items`);
  if (values === undefined) {
    throw grammarInvalid(
      `${place}.uniqueItems`,
      'expected "uniqueItems" beside "items" that list their values, found others; leave it out, and check the answer for it',
      { keyword: "uniqueItems" },
    );
  }
  const { json } = context;
  const counts: Counts = { min, max: Math.min(max, values.length) };
  if (counts.min > counts.max) return NOTHING;
  const texts = values.map((value) => context.json.literal(value));
  json.budget.step(
    place,
    texts.length <= ANY_ORDER ? texts.length * 2 ** texts.length : texts.length * (counts.max + 1),
  );
  return sequence(
    text("["),
    json.space,
    texts.length <= ANY_ORDER ? inAnyOrder(context, texts, counts) : inOrder(context, texts, counts),
  );
}

function inAnyOrder({ json }: SchemaContext, texts: readonly Expression[], { min, max }: Counts): Expression {
  const known = new Map<number, Expression>();
  const behind = (taken: number, count: number): Expression => {
    const rule = known.get(taken);
    if (rule !== undefined) return rule;
    const made = json.rules.reserve("items");
    known.set(taken, made);
    const separator = count === 0 ? [] : [text(","), json.space];
    const next =
      count >= max
        ? []
        : texts.flatMap((item, index) =>
            (taken & (1 << index)) === 0 ? [sequence(...separator, item, behind(taken | (1 << index), count + 1))] : [],
          );
    json.rules.define(made, choice(...next, ...(count >= min ? [ending(json, count)] : [])));
    return made;
  };
  return behind(0, 0);
}

function inOrder({ json }: SchemaContext, texts: readonly Expression[], { min, max }: Counts): Expression {
  let rest: readonly Expression[] = Array.from({ length: max + 1 }, (_, count) =>
    count >= min ? ending(json, count) : NOTHING,
  );
  for (const item of [...texts].reverse()) {
    rest = rest.map((skipped, count) => {
      const after = rest[count + 1];
      if (after === undefined || after === NOTHING) return skipped;
      const taken = sequence(...(count === 0 ? [] : [text(","), json.space]), item, after);
      return skipped === NOTHING ? json.rules.add("items", taken) : json.rules.add("items", choice(taken, skipped));
    });
  }
  return rest[0] as Expression;
}

function ending(json: SchemaContext["json"], count: number): Expression {
  return count === 0 ? text("]") : sequence(json.space, text("]"));
}
