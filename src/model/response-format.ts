// The required form of generated text: a JSON Schema, a regular expression or a grammar. Options of `generate` and
// `chat`.

import type { GrammarSpec } from "../grammar/grammar-spec.js";
import { refuseValue } from "../options.js";
import { type OptionChecks, optionalText } from "./checked-options.js";
import { jsonSchemaOf, type ReplySchema } from "./response-schema.js";

/** Constrains the generated text; at most one of these may be given. */
export interface FormatOptions<Value = unknown> {
  /** The text is JSON that satisfies this schema. */
  readonly schema?: ReplySchema<Value>;
  /** The whole text matches this regular expression. */
  readonly regex?: string | RegExp;
  /** The text matches the rule `root` of this GBNF grammar. */
  readonly grammar?: string;
}

/** The checks of the options that constrain text. */
export const FORMAT_CHECKS: OptionChecks<FormatOptions> = {
  schema: (where, option, value) => {
    if (value !== undefined && (value === null || !["object", "function"].includes(typeof value)))
      refuseValue(where, option, "a JSON Schema or a Standard Schema", value);
  },
  regex: (where, option, value) => {
    if (value !== undefined && typeof value !== "string" && !(value instanceof RegExp))
      refuseValue(where, option, "a regular expression", value);
  },
  grammar: optionalText,
};

type Given = { readonly [Name in keyof FormatOptions]-?: FormatOptions[Name] | undefined };

/** The grammar specification that the options request, if any. */
export function textFormat(where: string, { schema, regex, grammar }: Given): GrammarSpec | undefined {
  if ([schema, regex, grammar].filter((format) => format !== undefined).length > 1)
    refuseValue(where, "schema", "one of schema, regex and grammar", "several");
  if (schema !== undefined) return { kind: "schema", schema: jsonSchemaOf(schema, "schema") };
  if (regex !== undefined) return { kind: "regex", pattern: typeof regex === "string" ? regex : regex.source };
  return grammar === undefined ? undefined : { kind: "grammar", text: grammar };
}
