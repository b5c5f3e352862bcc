// The response format that a request asks for, as a schema and as a grammar: OpenAI's response_format, and the fields that
// llama.cpp, vLLM, SGLang and Ollama use. Invariant: a known field is followed or refused, never ignored; two different
// formats in one request are refused.

import { z } from "zod";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import { isPlainObject, parsedJson } from "../../plain-object.js";
import { anyObject, ignored } from "./fields.js";
import type { ServerLimits } from "../http/limits.js";
import { listOf } from "./list-schema.js";
import { refuseField, RequestError } from "../http/request-error.js";

type Schema = Readonly<Record<string, unknown>>;

/** OpenAI's three types, with llama.cpp's place for the schema beside the type, and two types of our own. */
function responseFormat(limits: ServerLimits) {
  const text = z.string().min(1).max(limits.grammarCharacters);
  return z.discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object"), schema: anyObject.nullish() }),
    z.object({
      type: z.literal("json_schema"),
      json_schema: z
        .object({
          name: z.string().max(256).nullish(),
          description: z.string().nullish(),
          schema: anyObject.nullish(),
          strict: z.boolean().nullish(),
        })
        .nullish(),
      schema: anyObject.nullish(),
    }),
    z.object({ type: z.literal("regex"), regex: text }),
    z.object({ type: z.literal("grammar"), grammar: text }),
  ]);
}

/** A JSON schema as an object or as JSON text. */
function schemaOrText(limits: ServerLimits) {
  return z.union([anyObject, z.string().min(1).max(limits.grammarCharacters)], {
    error: "expected a JSON schema, or the text of one",
  });
}

/** Response formats as top-level fields. */
export function grammarFields(limits: ServerLimits) {
  const text = z.string().min(1).max(limits.grammarCharacters);
  const schema = schemaOrText(limits);
  const choice = listOf(z.string().max(limits.grammarCharacters), limits.contentParts, 1);
  return {
    response_format: responseFormat(limits).optional(),
    regex: text.optional(),
    grammar: text.optional(),
    ebnf: text.optional().describe("As grammar"),
    json_schema: schema.optional().describe("A schema, as in response_format"),
    format: schema.optional().describe(`"json" or a schema, as response_format has it`),
    guided_json: schema.optional().describe("As json_schema"),
    guided_regex: text.optional().describe("As regex"),
    guided_choice: choice.optional().describe("One of these texts"),
    guided_grammar: text.optional().describe("As grammar"),
    guided_decoding_backend: ignored,
    structured_outputs: z
      .object({
        json: schema.nullish(),
        json_object: z.boolean().nullish(),
        regex: text.nullish(),
        choice: choice.nullish(),
        grammar: text.nullish(),
        whitespace_pattern: z.null().optional(),
        structural_tag: z.null().optional(),
        disable_fallback: ignored,
        disable_any_whitespace: ignored,
        disable_additional_properties: z.literal(false).nullish(),
      })
      .optional(),
  };
}

/** Known fields that are not supported. */
export const REFUSED_FORMATS = {
  guided_whitespace_pattern: { instead: "the white space of JSON output cannot be chosen" },
  structural_tag: { instead: "use tools, or response_format" },
} as const;

/** Refuses all of these fields, for endpoints with a field of their own. */
export function refusedFormats(instead: string): Readonly<Record<string, { readonly instead: string }>> {
  const names = [
    "response_format",
    "regex",
    "grammar",
    "ebnf",
    "json_schema",
    "format",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    ...Object.keys(REFUSED_FORMATS),
  ];
  return Object.fromEntries(names.map((name) => [name, { instead }]));
}

type FormatFields = {
  readonly [Name in keyof ReturnType<typeof grammarFields>]?: z.infer<ReturnType<typeof grammarFields>[Name]>;
};

/** The response format of a request; undefined if it asks for none. */
export function formatOf(fields: FormatFields): GrammarSpec | undefined {
  const { response_format: format, structured_outputs: outputs, guided_choice: choice } = fields;
  const asked: readonly (readonly [field: string, spec: GrammarSpec | undefined])[] = [
    ["response_format", format === undefined ? undefined : formatSpec(format)],
    ["regex", regexSpec(fields.regex)],
    ["grammar", grammarSpec(fields.grammar)],
    ["ebnf", grammarSpec(fields.ebnf)],
    ["json_schema", schemaSpec("json_schema", fields.json_schema)],
    ["format", fields.format === "json" ? { kind: "json" } : schemaSpec("format", fields.format)],
    ["guided_json", schemaSpec("guided_json", fields.guided_json)],
    ["guided_regex", regexSpec(fields.guided_regex)],
    ["guided_choice", choice === undefined ? undefined : choiceSpec(choice)],
    ["guided_grammar", grammarSpec(fields.guided_grammar)],
    ...(outputs === undefined ? [] : structuredOutputs(outputs)),
  ];
  const demands = asked.flatMap(([field, spec]) => (spec === undefined ? [] : [{ field, spec }]));
  const [first, second] = demands;
  if (first === undefined || second === undefined) return first?.spec;
  // Clients that support several servers may send the same format in two fields.
  if (demands.every(({ spec }) => JSON.stringify(spec) === JSON.stringify(first.spec))) return first.spec;
  throw new RequestError(
    `[${second.field}] expected one response format, found another in ${first.field}; send only one of the two`,
    {
      status: 400,
      code: "invalid_value",
      param: second.field,
    },
  );
}

function structuredOutputs(
  outputs: NonNullable<FormatFields["structured_outputs"]>,
): readonly (readonly [field: string, spec: GrammarSpec | undefined])[] {
  return [
    ["structured_outputs.json", schemaSpec("structured_outputs.json", outputs.json)],
    ["structured_outputs.json_object", outputs.json_object === true ? { kind: "json" } : undefined],
    ["structured_outputs.regex", regexSpec(outputs.regex)],
    [
      "structured_outputs.choice",
      outputs.choice === undefined || outputs.choice === null ? undefined : choiceSpec(outputs.choice),
    ],
    ["structured_outputs.grammar", grammarSpec(outputs.grammar)],
  ];
}

function formatSpec(format: z.infer<ReturnType<typeof responseFormat>>): GrammarSpec | undefined {
  switch (format.type) {
    case "text":
      return undefined;
    case "json_object":
      return jsonSpec(format.schema);
    case "json_schema": {
      const { json_schema: named, schema } = format;
      if ((named === undefined || named === null) && (schema === undefined || schema === null))
        refuseField("response_format.json_schema", "an object with a schema", "nothing");
      return jsonSpec(named?.schema ?? schema);
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

function jsonSpec(schema: Schema | null | undefined): GrammarSpec {
  return schema === undefined || schema === null ? { kind: "json" } : { kind: "schema", schema };
}

function regexSpec(pattern: string | null | undefined): GrammarSpec | undefined {
  return pattern === undefined || pattern === null ? undefined : { kind: "regex", pattern };
}

function grammarSpec(text: string | null | undefined): GrammarSpec | undefined {
  return text === undefined || text === null ? undefined : { kind: "grammar", text };
}

function schemaSpec(param: string, given: Schema | string | null | undefined): GrammarSpec | undefined {
  if (given === undefined || given === null) return undefined;
  const schema = typeof given === "string" ? parsedJson(given) : given;
  if (isPlainObject(schema)) return { kind: "schema", schema };
  return refuseField(param, "a JSON schema, or the text of one", "other text");
}

/** A grammar for one of several plain texts. */
function choiceSpec(texts: readonly string[]): GrammarSpec {
  return {
    kind: "regex",
    pattern: `(?:${texts.map((text) => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|")})`,
  };
}
