// Messages to and from the compiler processes. One request at a time.

export interface CompileQuestion {
  readonly source: string;
  /** Of the source, for the compiler's messages. */
  readonly name: string;
  readonly options: readonly string[];
}

/** The compiler's own refusal, or that its library cannot be used over there. */
interface CompileProblem {
  readonly call: string;
  readonly number: number;
  readonly log: string;
}

export type CompileAnswer =
  | { readonly code: Uint8Array }
  | { readonly problem: CompileProblem }
  | { readonly unusable: string };
