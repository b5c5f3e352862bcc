// Schemas of lists in requests. Invariants: the length of a list is checked before its elements, and checking ends at
// the first invalid element: a list of a hundred thousand invalid elements has one problem, not as many, each of which
// would cost time and memory. The elements of large requests are checked in turns beforehand, and the results are kept
// for the check of the list.

import { z } from "zod";
import { isPlainObject } from "../../plain-object.js";
import { type Problem, problemOf } from "./request-schema.js";
import type { Divisible } from "../http/time-share.js";

interface ListShape {
  readonly element: z.ZodType;
  readonly most: number;
  readonly least: number;
}

/**
 * The element schema and lengths of each list schema, for the OpenAPI document: a transforming schema does not show
 * them.
 */
const SHAPES = new WeakMap<z.core.$ZodType, ListShape>();

/** The element schema and lengths of a list schema; undefined for other schemas. */
export function listShape(schema: z.core.$ZodType): ListShape | undefined {
  return SHAPES.get(schema);
}

/** A schema for a list of limited length. */
export function listOf<Element>(element: z.ZodType<Element>, most: number, least = 0) {
  const schema = z
    .array(z.unknown())
    .min(least)
    .max(most)
    .transform((given, context): Element[] => {
      const kept: Element[] = [];
      for (const [index, value] of given.entries()) {
        const read = judged(element, value) ?? problemOf(element, value);
        if (!("value" in read)) {
          context.issues.push({ code: "custom", message: read.message, path: [index, ...read.path], input: value });
          return z.NEVER;
        }
        kept.push(read.value);
      }
      return kept;
    });
  SHAPES.set(schema, { element, most, least });
  return schema;
}

type Judgement = { readonly value: unknown } | Problem;

/** Results by element; an element belongs to one request and is garbage-collected with it. */
const JUDGEMENTS = new WeakMap<object, { readonly schema: z.ZodType; readonly judgement: Judgement }>();

function judged<Element>(
  schema: z.ZodType<Element>,
  value: unknown,
): { readonly value: Element } | Problem | undefined {
  if (!isPlainObject(value)) return undefined;
  const known = JUDGEMENTS.get(value);
  return known?.schema === schema ? (known.judgement as { readonly value: Element } | Problem) : undefined;
}

/**
 * Checks the elements of a request's lists one by one, up to the first invalid one, which the check of the request
 * reports.
 */
export function* judgeLists(schema: z.core.$ZodType, body: unknown): Divisible<void> {
  if (!isPlainObject(body) || !(schema instanceof z.ZodObject)) return;
  for (const [name, value] of Object.entries(body)) {
    const shape = Object.hasOwn(schema.shape, name) ? innerList(schema.shape[name] as z.core.$ZodType) : undefined;
    if (shape === undefined || !Array.isArray(value) || value.length > shape.most) continue;
    for (const element of value as readonly unknown[]) {
      if (!isPlainObject(element)) break;
      const judgement = problemOf(shape.element, element);
      JUDGEMENTS.set(element, { schema: shape.element, judgement });
      if (!("value" in judgement)) return;
      yield;
    }
  }
}

/** The list schema inside an optional, nullable or union schema. */
function innerList(schema: z.core.$ZodType): ListShape | undefined {
  const own = listShape(schema);
  if (own !== undefined) return own;
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) return innerList(schema.def.innerType);
  if (!(schema instanceof z.ZodUnion)) return undefined;
  for (const option of schema.def.options) {
    const inner = innerList(option);
    if (inner !== undefined) return inner;
  }
  return undefined;
}
