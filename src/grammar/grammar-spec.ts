// The specification of a grammar that a completion must follow, as data.

/** Literal text, in which numbers are control tokens. */
export type FormText = string | readonly (string | number)[];

/** How a form writes the value of its schema, if not as JSON. */
export type ValueNotation =
  | {
      /** One field for each property of an object: `open`, the key, `text` or `json`, the value, `close`. */
      readonly kind: "fields";
      readonly open: FormText;
      /** Between the key and a string, which is written as it is, without quotes and escapes. */
      readonly text: FormText;
      /** Between the key and a value that is JSON. */
      readonly json: FormText;
      readonly close: FormText;
    }
  /** Python's keyword arguments: `key=value, …`; perhaps with JSON's words for true, false and nothing. */
  | { readonly kind: "python"; readonly words?: "json" }
  /** A map with bare keys; strings are written as they are, between quotes. */
  | { readonly kind: "map"; readonly quote: FormText };

/** Literal text, a value of a schema, literal text: a required tool call in the model's convention. */
export interface SchemaForm {
  readonly prefix: FormText;
  readonly schema: unknown;
  readonly suffix: FormText;
  /** JSON by default. */
  readonly notation?: ValueNotation;
}

/** Forms that follow one another, at least one. */
export interface FormSeries {
  readonly open: FormText;
  readonly forms: readonly SchemaForm[];
  readonly separator: FormText;
  readonly close: FormText;
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
  /**
   * Free text that ends with `close`, and then a text of another grammar. It begins with `open`, or there is none; without
   * `open` it has begun already.
   */
  | { readonly kind: "thought"; readonly open?: FormText; readonly close: FormText; readonly rest: GrammarSpec }
  /** One of several forms, or a series of some. */
  | { readonly kind: "forms"; readonly forms: readonly SchemaForm[]; readonly series?: FormSeries };
