// The specification of a grammar that a completion must follow, as data.

/** Literal text, in which numbers are control tokens. */
export type FormText = string | readonly (string | number)[];

/** Literal text, a value of a schema, literal text: a required tool call in the model's convention. */
export interface SchemaForm {
  readonly prefix: FormText;
  readonly schema: unknown;
  readonly suffix: FormText;
}

/** The grammar that a text must follow. */
export type GrammarSpec =
  /** Any JSON object. */
  | { readonly kind: "json" }
  /** A value of a JSON Schema. */
  | { readonly kind: "schema"; readonly schema: unknown }
  /** A text that the whole regular expression matches. */
  | { readonly kind: "regex"; readonly pattern: string }
  /** A text of the rule "root" of a grammar in GBNF (EBNF). */
  | { readonly kind: "grammar"; readonly text: string }
  /** One of several forms. */
  | { readonly kind: "forms"; readonly forms: readonly SchemaForm[] };
