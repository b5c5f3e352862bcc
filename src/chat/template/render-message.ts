// Messages between the main thread and the render threads.

/** A request to a render thread. */
export interface RenderRequest {
  /** The template's text. */
  readonly template: string;
  /** JSON texts of sets of variables; each gives one rendering. */
  readonly variables: readonly string[];
}

/** The result of one rendering. */
export type RenderReply =
  /** `timed` tells whether the text contains the time of day, so that it must not be cached. */
  | { readonly kind: "text"; readonly text: string; readonly untrusted: readonly number[]; readonly timed: boolean }
  /** The template raised an error, or is not valid. */
  | { readonly kind: "refused"; readonly message: string }
  /** The rendering exceeded a limit. */
  | { readonly kind: "limit"; readonly message: string };
