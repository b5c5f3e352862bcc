// The form that a client demands of an answer's text, as a schema and as a grammar.

import { z } from "zod";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import { anyObject } from "./fields.js";
import type { ServerLimits } from "./limits.js";
import { RequestError } from "./request-error.js";

/** OpenAI's three, and two of ours. */
export function responseFormat(limits: ServerLimits) {
  const text = z.string().min(1).max(limits.grammarCharacters);
  return z.discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({
      type: z.literal("json_schema"),
      json_schema: z.object({
        name: z.string().max(256).nullish(),
        description: z.string().nullish(),
        schema: anyObject.nullish(),
        strict: z.boolean().nullish(),
      }),
    }),
    z.object({ type: z.literal("regex"), regex: text }),
    z.object({ type: z.literal("grammar"), grammar: text }),
  ]);
}

/** The same demands as fields of their own, as servers of open models have them. */
export function grammarFields(limits: ServerLimits) {
  const text = z.string().min(1).max(limits.grammarCharacters).optional();
  return { response_format: responseFormat(limits).optional(), regex: text, grammar: text };
}

interface GrammarFields {
  readonly response_format?: z.infer<ReturnType<typeof responseFormat>> | undefined;
  readonly regex?: string | undefined;
  readonly grammar?: string | undefined;
}

export function formatOf({ response_format: format, regex, grammar }: GrammarFields): GrammarSpec | undefined {
  const asked: readonly (GrammarSpec | undefined)[] = [
    format === undefined ? undefined : formatSpec(format),
    regex === undefined ? undefined : { kind: "regex", pattern: regex },
    grammar === undefined ? undefined : { kind: "grammar", text: grammar },
  ];
  const [first, second] = asked.filter((spec) => spec !== undefined);
  if (second !== undefined) {
    throw new RequestError("[response_format] expected one of response_format, regex and grammar, found two", {
      status: 400,
      code: "invalid_value",
      param: "response_format",
    });
  }
  return first;
}

function formatSpec(format: z.infer<ReturnType<typeof responseFormat>>): GrammarSpec | undefined {
  switch (format.type) {
    case "text":
      return undefined;
    case "json_object":
      return { kind: "json" };
    case "json_schema": {
      const { schema } = format.json_schema;
      return schema === undefined || schema === null ? { kind: "json" } : { kind: "schema", schema };
    }
    case "regex":
      return { kind: "regex", pattern: format.regex };
    case "grammar":
      return { kind: "grammar", text: format.grammar };
    default:
      format satisfies never;
      return undefined;
  }
}
