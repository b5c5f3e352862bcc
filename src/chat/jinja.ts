// The template engine as it is used here. Its own declarations name their files in a way that Node's resolution does not
// follow, so the few names that are needed are declared again.

import * as engine from "@huggingface/jinja";

export interface JinjaValue {
  readonly type: string;
  readonly value: unknown;
}

/** A parsed template; only its interpreter looks inside. */
export interface JinjaProgram {
  readonly type: string;
}

export interface JinjaEnvironment {
  /** Plain data or a function; a name can be set once. */
  set(name: string, value: unknown): JinjaValue;
}

export interface JinjaInterpreter {
  run(program: JinjaProgram): JinjaValue;
  /** Everything that a template does goes through here, again and again. */
  evaluate(statement: JinjaProgram | undefined, environment: JinjaEnvironment): JinjaValue | undefined;
}

interface JinjaEngine {
  readonly Environment: new () => JinjaEnvironment;
  readonly Interpreter: new (environment: JinjaEnvironment) => JinjaInterpreter;
  parse(tokens: unknown): JinjaProgram;
  tokenize(template: string, options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean }): unknown;
}

export const { Environment, Interpreter, parse, tokenize } = engine as unknown as JinjaEngine;
