// Properties by name: the schema of a value under a mentioned name, under a name that a pattern matches, or under any
// other. Names that nothing mentions are generated only if `additionalProperties` allows them, or if nothing is
// mentioned at all.

import { combinedDfa, type Dfa } from "../automaton/dfa.js";
import { automaton, choice, EMPTY, type Expression, NOTHING, text } from "../expression.js";
import { grammarInvalid } from "../limits.js";
import { otherNames } from "./other-names.js";
import type { SchemaContext } from "./schema-grammar.js";
import { objectOf } from "./keywords.js";
import type { SchemaObject } from "./pointer.js";
import { allPatterns, anyTextDfa, dfaOf, quotedString } from "./string-language.js";

interface OtherProperties {
  /** A name that is not mentioned, with its value. */
  readonly pair: Expression;
  /** The value under a name. */
  valueOf(name: string): Expression;
}

/** Names that are matched by the same patterns. */
interface NameGroup {
  readonly names: Dfa;
  readonly schemas: readonly unknown[];
}

interface Pattern {
  readonly names: Dfa;
  readonly schema: unknown;
}

/** Most groups of names; patterns that all overlap would have two to the power of their number. */
const MAX_GROUPS = 64;

/**
 * The properties that `patternProperties`, `propertyNames` and `additionalProperties` allow beside those that are
 * `listed`.
 */
export function otherProperties(
  context: SchemaContext,
  schema: SchemaObject,
  listed: readonly string[],
  place: string,
): OtherProperties {
  const { json } = context;
  const declared = objectOf(schema, "properties", place);
  const patterns = Object.entries(objectOf(schema, "patternProperties", place)).map(([pattern, inner]): Pattern => {
    const where = `${place}.patternProperties`;
    json.budget.step(where, pattern.length);
    return { names: allPatterns([pattern], where), schema: inner };
  });
  const allowed = nameLanguage(context, schema, place);
  const additional = schema["additionalProperties"];
  const open = additional === undefined ? Object.keys(declared).length + patterns.length === 0 : additional !== false;
  const inside = (schemas: readonly unknown[], where: string): Expression => {
    if (schemas.length === 0) return context.expression(additional ?? true, `${place}.additionalProperties`);
    return context.expression(schemas.length === 1 ? schemas[0] : { allOf: schemas }, where);
  };
  const valueOf = (name: string): Expression => {
    const bytes = textInQuotes(name);
    if (allowed !== undefined && !allowed.matches(bytes)) return NOTHING;
    const matching = patterns.filter(({ names }) => names.matches(bytes)).map((pattern) => pattern.schema);
    const own = Object.hasOwn(declared, name) ? [declared[name]] : [];
    return inside([...own, ...matching], `${place}.properties.${name}`);
  };
  if (patterns.length === 0 && allowed === undefined) {
    const value = open ? inside([], place) : NOTHING;
    if (value === NOTHING) return { pair: NOTHING, valueOf };
    if (listed.length === 0) return { pair: json.pair(json.anyKey, value), valueOf };
    // Names without quotes are generated only if the schema mentions none.
    if (json.dialect.raw !== undefined) return { pair: NOTHING, valueOf };
    return { pair: json.pair(otherNames(json, listed, place), value), valueOf };
  }
  if (json.dialect.raw !== undefined) return { pair: NOTHING, valueOf };
  const groups = nameGroups(patterns, unlisted(allowed ?? anyTextDfa(), listed, place), place);
  const pairs = groups.map(({ names, schemas }) => {
    const value = schemas.length === 0 && !open ? NOTHING : inside(schemas, `${place}.patternProperties`);
    return value === NOTHING ? NOTHING : json.pair(quotedString(automaton(names)), value);
  });
  return { pair: choice(...pairs.filter((pair) => pair !== NOTHING)), valueOf };
}

/** The names that `propertyNames` allows; undefined if it allows all. */
function nameLanguage(context: SchemaContext, schema: SchemaObject, place: string): Dfa | undefined {
  const { propertyNames } = schema;
  return propertyNames === undefined ? undefined : context.strings(propertyNames, `${place}.propertyNames`);
}

function unlisted(names: Dfa, listed: readonly string[], place: string): Dfa {
  if (listed.length === 0) return names;
  const texts = listed.map((name) => (name === "" ? EMPTY : text(JSON.stringify(name).slice(1, -1))));
  return combinedDfa(names, dfaOf(choice(...texts), place), "first only", place);
}

function nameGroups(patterns: readonly Pattern[], all: Dfa, place: string): readonly NameGroup[] {
  let groups: readonly NameGroup[] = [{ names: all, schemas: [] }];
  for (const { names, schema } of patterns) {
    groups = groups
      .flatMap((group) => [
        { names: combinedDfa(group.names, names, "both", place), schemas: [...group.schemas, schema] },
        { names: combinedDfa(group.names, names, "first only", place), schemas: group.schemas },
      ])
      .filter((group) => !group.names.empty);
    if (groups.length > MAX_GROUPS)
      throw grammarInvalid(
        `${place}.patternProperties`,
        `expected patterns that overlap in ${MAX_GROUPS} ways at most, found more; name the properties`,
      );
  }
  return groups;
}

function textInQuotes(name: string): Uint8Array {
  return Buffer.from(JSON.stringify(name).slice(1, -1), "utf8");
}
