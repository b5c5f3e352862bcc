// What is asked of the rendering thread, and what it answers.

export interface RenderQuestion {
  /** The template's text. */
  readonly template: string;
  /** JSON texts of the variables; each gives one rendering. */
  readonly variables: readonly string[];
}

export type RenderAnswer =
  /** `timed`: the text has the time of day in it, so it is no good later. */
  | { readonly kind: "text"; readonly text: string; readonly untrusted: readonly number[]; readonly timed: boolean }
  /** The template refused, or is none. */
  | { readonly kind: "refused"; readonly message: string }
  /** It made too much. */
  | { readonly kind: "limit"; readonly message: string };
