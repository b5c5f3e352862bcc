// Negates schemas, for `not`, `if`, and a `oneOf` whose options overlap. The result never holds together with the
// schema; it may not cover all values that do not satisfy the schema.

import { isPlainObject } from "../../plain-object.js";
import { namesOf, objectOf, TYPES, type TypeName } from "./keywords.js";
import type { NumberDemands } from "./number.js";
import type { SchemaObject } from "./pointer.js";
import type { StringDemands } from "./string.js";
import { lengthsOf, numberBounds } from "./value.js";

type Plain = SchemaObject;

const UNBOUNDED = { min: undefined, max: undefined } as const;
const UNLIMITED = { min: 0, max: Infinity } as const;

interface NegationContext {
  /** Names of properties that other schemas mention. */
  readonly names: readonly string[];
  /** Whether a nested schema can be negated. */
  canNegate(schema: unknown): boolean;
}

/** The negation of a plain schema in normal form, as alternatives of the same kind. */
export function negated(schema: Plain, { names, canNegate }: NegationContext, place: string): readonly Plain[] {
  const types = (schema["type"] as readonly TypeName[] | undefined) ?? TYPES;
  const isNegatable = (inside: unknown): boolean =>
    !isPlainObject(inside) || !("not" in inside) || canNegate(inside["not"]);
  return [
    ...otherTypes(types),
    ...("enum" in schema ? otherValues(schema["enum"] as readonly unknown[]) : []),
    ...(types.includes("string") ? otherStrings(schema, place) : []),
    ...(types.includes("number") || types.includes("integer") ? otherNumbers(schema, types, place) : []),
    ...(types.includes("object")
      ? otherObjects(schema, names, place).filter(({ properties = {} }) =>
          Object.values(properties as SchemaObject).every(isNegatable),
        )
      : []),
    ...(types.includes("array")
      ? otherArrays(schema).filter(({ prefixItems = [] }) => (prefixItems as readonly unknown[]).every(isNegatable))
      : []),
  ];
}

/** Whether the negation of a schema covers all values that do not satisfy it. */
export function isNegatedWhole(schema: Plain, isWhole: (schema: unknown) => boolean): boolean {
  const {
    enum: values = [],
    properties = {},
    additionalProperties = true,
    ...rest
  } = schema as {
    readonly enum?: readonly unknown[];
    readonly properties?: SchemaObject;
    readonly additionalProperties?: unknown;
  };
  const inexact = [
    "format",
    "notStrings",
    "notNumbers",
    "patternProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "uniqueItems",
  ];
  if (
    inexact.some((keyword) => keyword in rest) ||
    values.some((value) => typeof value === "object" && value !== null) ||
    !saysNothing(additionalProperties)
  )
    return false;
  return Object.values(properties).every(
    (inside) => typeof inside === "boolean" || saysNothing(inside) || isWhole(inside),
  );
}

function otherTypes(types: readonly TypeName[]): readonly Plain[] {
  const numeric = types.includes("number") || types.includes("integer");
  const others = TYPES.filter((type) => type !== "integer" && (type === "number" ? !numeric : !types.includes(type)));
  const fractions =
    types.includes("integer") && !types.includes("number")
      ? [excluding({ whole: true, bounds: UNBOUNDED, divisors: [] })]
      : [];
  return [...(others.length === 0 ? [] : [{ type: others }]), ...fractions];
}

function excluding(demands: NumberDemands): Plain {
  return { type: ["number"], notNumbers: [demands] };
}

function otherValues(values: readonly unknown[]): readonly Plain[] {
  const strings = values.filter((value) => typeof value === "string");
  const numbers = values.filter((value) => typeof value === "number");
  const words = [true, false, null].filter((word) => !values.includes(word));
  const structures = (["object", "array"] as const).filter(
    (type) => !values.some((value) => (type === "array" ? Array.isArray(value) : isPlainObject(value))),
  );
  return [
    {
      type: ["string"],
      ...(strings.length === 0
        ? {}
        : { notStrings: [{ patterns: [], limits: UNLIMITED, listed: strings } satisfies StringDemands] }),
    },
    numbers.length === 0
      ? { type: ["number"] }
      : excluding({ whole: false, bounds: UNBOUNDED, divisors: [], listed: numbers }),
    ...(words.length === 0 ? [] : [{ enum: words }]),
    ...(structures.length === 0 ? [] : [{ type: structures }]),
  ];
}

function otherStrings(schema: Plain, place: string): readonly Plain[] {
  const limits = lengthsOf(schema, place);
  const { patterns = [], notStrings = [] } = schema as {
    readonly patterns?: readonly string[];
    readonly notStrings?: readonly StringDemands[];
  };
  // A format is an annotation by the standard: a value that does not match it may satisfy the schema.
  if (
    "format" in schema ||
    notStrings.length > 0 ||
    (patterns.length === 0 && limits.min === 0 && limits.max === Infinity)
  )
    return [];
  return [{ type: ["string"], notStrings: [{ patterns, limits } satisfies StringDemands] }];
}

function otherNumbers(schema: Plain, types: readonly TypeName[], place: string): readonly Plain[] {
  const bounds = numberBounds(schema, place);
  const { divisors = [], notNumbers = [] } = schema as {
    readonly divisors?: readonly number[];
    readonly notNumbers?: readonly NumberDemands[];
  };
  if (notNumbers.length > 0 || (divisors.length === 0 && bounds.min === undefined && bounds.max === undefined))
    return [];
  return [excluding({ whole: !types.includes("number"), bounds, divisors })];
}

function otherObjects(schema: Plain, names: readonly string[], place: string): readonly Plain[] {
  const object = (rest: Plain): Plain => ({ type: ["object"], ...rest });
  const declared = objectOf(schema, "properties", place);
  const results = namesOf(schema, "required", place).map((name) => object({ properties: { [name]: false } }));
  for (const [name, inside] of Object.entries(declared))
    if (!saysNothing(inside)) results.push(withProperty(name, inside));
  const {
    additionalProperties: additional,
    minProperties: least,
    maxProperties: most,
  } = schema as Readonly<Record<string, unknown>>;
  if (additional !== undefined && !saysNothing(additional) && !("patternProperties" in schema)) {
    for (const name of names) if (!Object.hasOwn(declared, name)) results.push(withProperty(name, additional));
  }
  if (typeof least === "number" && least > 0) results.push(object({ maxProperties: least - 1 }));
  if (typeof most === "number") results.push(object({ minProperties: most + 1 }));
  return results;
}

/** Negations by schema: the same object for the same schema, so that recursion ends. */
const opposites = new WeakMap<object, SchemaObject>();

function not(schema: unknown): unknown {
  if (typeof schema !== "object" || schema === null) return { not: schema };
  let known = opposites.get(schema);
  if (known === undefined) opposites.set(schema, (known = { not: schema }));
  return known;
}

function withProperty(name: string, inside: unknown): Plain {
  return { type: ["object"], required: [name], ...(inside === false ? {} : { properties: { [name]: not(inside) } }) };
}

function otherArrays(schema: Plain): readonly Plain[] {
  const {
    minItems,
    maxItems,
    prefixItems = [],
    items,
  } = schema as {
    readonly minItems?: number;
    readonly maxItems?: number;
    readonly prefixItems?: readonly unknown[];
    readonly items?: unknown;
  };
  const array = (rest: Plain): Plain => ({ type: ["array"], ...rest });
  const wrongAt = (place: number, inside: unknown): Plain =>
    array({
      minItems: place + 1,
      prefixItems: [...Array.from({ length: place }, () => true), not(inside)],
      items: true,
    });
  return [
    ...(minItems !== undefined && minItems > 0 ? [array({ maxItems: minItems - 1 })] : []),
    ...(maxItems === undefined ? [] : [array({ minItems: maxItems + 1 })]),
    ...prefixItems.flatMap((inside, place) => (saysNothing(inside) ? [] : [wrongAt(place, inside)])),
    ...(items === undefined || saysNothing(items) ? [] : [wrongAt(prefixItems.length, items)]),
  ];
}

function saysNothing(schema: unknown): boolean {
  return schema === true || (isPlainObject(schema) && Object.keys(schema).length === 0);
}
