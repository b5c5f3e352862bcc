// Messages to and from the compiler processes, one request at a time.

/** A request to a compiler process. */
export interface CompileQuestion {
  readonly source: string;
  /** File name for the compiler's messages. */
  readonly name: string;
  readonly options: readonly string[];
}

/** A function of the compiler that failed, with its log. */
interface CompileProblem {
  readonly call: string;
  readonly number: number;
  readonly log: string;
}

/** Compiled code, the compiler's errors, or why the process could not use the compiler's library. */
export type CompileAnswer =
  | { readonly code: Uint8Array }
  | { readonly problem: CompileProblem }
  | { readonly unusable: string };

/** What a compiler process sends: that it begins with the request, before a compiler that may crash, and then its answer. */
export type CompileMessage = { readonly begun: true } | CompileAnswer;
