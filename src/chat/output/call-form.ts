// The form that a tool call takes in constrained decoding, as plain data that the grammar part compiles: the text around
// the arguments, and the notation of the arguments if it is not JSON.

/** How a form writes the arguments, if not as a JSON object. */
export type ArgumentNotation =
  | {
      /** One field for each argument: `open`, the key, `text` or `json`, the value, `close`. */
      readonly kind: "fields";
      readonly open: string;
      /** Between the key and a value that is plain text. */
      readonly text: string;
      /** Between the key and a value that is JSON. */
      readonly json: string;
      readonly close: string;
    }
  /** Python's keyword arguments: `key=value, …`; perhaps with JSON's words for true, false and nothing. */
  | { readonly kind: "python"; readonly words?: "json" }
  /** A map with bare keys, in which `quote` opens and closes strings. */
  | { readonly kind: "map"; readonly quote: string };

/** The spelling of a call: literal text, the arguments, literal text. */
export interface CallSpelling {
  readonly prefix: string;
  readonly suffix: string;
  /** The notation of the arguments; JSON by default. */
  readonly notation?: ArgumentNotation;
  /** The id that the call has by its spelling. */
  readonly id?: string;
}

/** What stands around calls that follow one another, and between them: each form begins with the one, and ends with the other. */
export interface CallSeries {
  readonly open: string;
  readonly separator: string;
  readonly close: string;
}

/** A form of the output: literal text, a value of a JSON schema, literal text. */
export interface ToolCallForm extends CallSpelling {
  /** The tool that the form calls. */
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
}

/** Text that stands around an answer that is no call. */
export interface AnswerForm {
  readonly prefix: string;
  readonly suffix: string;
}

/** Free text in front of constrained text. */
export interface ThoughtForm {
  /** What the model opens it with, if it thinks; undefined if the prompt has opened it. */
  readonly open: string | undefined;
  readonly close: string;
}

/** Tags around each argument. */
export function taggedFields(open: string, opened: readonly [text: string, json: string], close: string) {
  return { kind: "fields", open, text: opened[0], json: opened[1], close } as const satisfies ArgumentNotation;
}
