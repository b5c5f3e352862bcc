// Grammars of all models that are served: a compiler, with its threads, for each model's vocabulary. Invariant: a model
// that was unloaded and loaded again gets a new compiler, and the old one's threads end, so that there is one for a name.

import type { ServedModel, TokenConstraint } from "../engine/serving.js";
import { GrammarCompiler } from "../grammar/grammar-compiler.js";
import type { GrammarSpec as CompiledSpec } from "../grammar/grammar-spec.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import type { GrammarService, GrammarSpec } from "./services.js";

interface KnownCompiler {
  readonly tokenizer: Tokenizer;
  readonly compiler: GrammarCompiler;
}

export class GrammarThreads implements GrammarService, AsyncDisposable {
  readonly #compilers = new Map<string, KnownCompiler>();

  async constraint(model: ServedModel, spec: GrammarSpec, signal: AbortSignal): Promise<TokenConstraint> {
    const grammar = await this.#compilerOf(model).compile(compiledSpec(spec), signal);
    return grammar.constraint();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#compilers.values(), ({ compiler }) => compiler[Symbol.asyncDispose]()));
  }

  #compilerOf({ name, tokenizer, vocabularySize }: ServedModel): GrammarCompiler {
    const known = this.#compilers.get(name);
    if (known?.tokenizer === tokenizer) return known.compiler;
    // Threads that do not end as they should are lost; nobody can wait for them here.
    known?.compiler[Symbol.asyncDispose]().catch(() => {});
    const compiler = new GrammarCompiler(tokenizer, { vocabularySize });
    this.#compilers.set(name, { tokenizer, compiler });
    return compiler;
  }
}

/** From the API's words to the compiler's. */
function compiledSpec(spec: GrammarSpec): CompiledSpec {
  switch (spec.kind) {
    case "json-object":
      return { kind: "json" };
    case "json-schema":
      return { kind: "schema", schema: spec.schema };
    case "tool-call":
      return { kind: "forms", forms: spec.forms };
    case "regex":
    case "grammar":
      return spec;
    default:
      return spec satisfies never;
  }
}
