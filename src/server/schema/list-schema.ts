// Lists in requests. Invariants: a list's length is judged before its elements, and the first element that is wrong ends
// it: a list of a hundred thousand wrong things has one problem, not as many, each of which would take time and memory.
// Elements of a large request are judged ahead, in turns, and what was found is kept for when the list is.

import { z } from "zod";
import { isPlainObject } from "../../plain-object.js";
import { type Problem, problemOf } from "./request-schema.js";
import type { Divisible } from "../http/time-share.js";

interface ListShape {
  readonly element: z.ZodType;
  readonly most: number;
  readonly least: number;
}

/** Descriptions are made of schemas, and this one does not show what is inside. */
const SHAPES = new WeakMap<z.core.$ZodType, ListShape>();

export function listShape(schema: z.core.$ZodType): ListShape | undefined {
  return SHAPES.get(schema);
}

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

/** By element; each belongs to one request, and goes with it. */
const JUDGEMENTS = new WeakMap<object, { readonly schema: z.ZodType; readonly judgement: Judgement }>();

function judged<Element>(
  schema: z.ZodType<Element>,
  value: unknown,
): { readonly value: Element } | Problem | undefined {
  if (!isPlainObject(value)) return undefined;
  const known = JUDGEMENTS.get(value);
  return known?.schema === schema ? (known.judgement as { readonly value: Element } | Problem) : undefined;
}

/** Judges the elements of a request's lists one by one; a problem ends it, for the request to be told. */
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

/** A field's list, which may be left out, or be one of several forms. */
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
