// The grammar compilers of all models, one with its worker threads for each vocabulary. Invariant: a compiler is disposed
// with its model, and is not created again for a model that was unloaded while a chat of it was being rendered.

import { GpuError } from "../errors.js";
import { GrammarCompiler, type GrammarCompilerOptions } from "../grammar/worker/grammar-compiler.js";
import type { GrammarSpec } from "../grammar/grammar-spec.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import type { CompletionModel, TokenConstraint } from "./completion-model.js";
import type { GrammarService } from "./services.js";

type GrammarModel = Pick<CompletionModel, "name" | "tokenizer" | "vocabularySize">;

/** Compiles grammars for any number of models. */
export class GrammarCompilers implements GrammarService, AsyncDisposable {
  readonly #compilers = new Map<Tokenizer, GrammarCompiler>();
  readonly #unloaded = new WeakSet<GrammarModel>();
  readonly #ending = new Set<Promise<void>>();
  readonly #options: Omit<GrammarCompilerOptions, "vocabularySize">;

  /** The options are those of each compiler. */
  constructor(options: Omit<GrammarCompilerOptions, "vocabularySize"> = {}) {
    this.#options = options;
  }

  /** Number of models that have a compiler. */
  get models(): number {
    return this.#compilers.size;
  }

  async constraint(model: GrammarModel, spec: GrammarSpec, signal?: AbortSignal): Promise<TokenConstraint> {
    // A model in use is unloaded only if its device was lost: the error is the one that the engine would give.
    if (this.#unloaded.has(model))
      throw new GpuError(
        "GPU_DEVICE_LOST",
        `[grammar] "${model.name}" was unloaded because its device was lost; try again when it is loaded again`,
      );
    const grammar = await this.#compilerOf(model).compile(spec, signal);
    return grammar.constraint();
  }

  /** Disposes the compiler of a model that is unloaded, with its grammars, vocabulary and threads. */
  forget(model: GrammarModel): void {
    this.#unloaded.add(model);
    this.#end(model.tokenizer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const tokenizer of this.#compilers.keys()) this.#end(tokenizer);
    await Promise.all(this.#ending);
  }

  #end(tokenizer: Tokenizer): void {
    const compiler = this.#compilers.get(tokenizer);
    if (compiler === undefined) return;
    this.#compilers.delete(tokenizer);
    // A thread that fails to end is abandoned; only disposing all compilers waits for it.
    const ended = compiler[Symbol.asyncDispose]()
      .catch(() => {})
      .finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  #compilerOf({ tokenizer, vocabularySize }: GrammarModel): GrammarCompiler {
    const known = this.#compilers.get(tokenizer);
    if (known !== undefined) return known;
    const compiler = new GrammarCompiler(tokenizer, { ...this.#options, vocabularySize });
    this.#compilers.set(tokenizer, compiler);
    return compiler;
  }
}
