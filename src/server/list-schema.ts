// Lists in requests. Invariants: a list's length is judged before its elements, and the first element that is wrong ends
// it: a list of a hundred thousand wrong things has one problem, not as many, each of which would take time and memory.

import { z } from "zod";
import { problemOf } from "./request-form.js";

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
        const read = problemOf(element, value);
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
