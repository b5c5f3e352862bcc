// Grammars of all models that are served: a compiler, with its threads, for each model's vocabulary. Invariant: a compiler
// goes with its model, also where a model of the same name was loaded anew, and does not come back for one that is gone,
// of which a chat may still be rendered.

import type { ServedModel, TokenConstraint } from "../../engine/serving.js";
import { GpuError } from "../../errors.js";
import { GrammarCompiler } from "../../grammar/worker/grammar-compiler.js";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import type { Tokenizer } from "../../tokenizer/tokenizer.js";
import type { GrammarService } from "./services.js";

export class GrammarThreads implements GrammarService, AsyncDisposable {
  readonly #compilers = new Map<Tokenizer, GrammarCompiler>();
  readonly #gone = new WeakSet<ServedModel>();
  readonly #ending = new Set<Promise<void>>();

  /** Models whose grammars are kept. */
  get models(): number {
    return this.#compilers.size;
  }

  async constraint(model: ServedModel, spec: GrammarSpec, signal: AbortSignal): Promise<TokenConstraint> {
    // One in use goes when its device is lost, and it is refused as it would refuse the chat itself.
    if (this.#gone.has(model))
      throw new GpuError(
        "GPU_DEVICE_LOST",
        `[grammar] "${model.name}" is gone, its device was lost; try again when it is loaded anew`,
      );
    const grammar = await this.#compilerOf(model).compile(spec, signal);
    return grammar.constraint();
  }

  /** The model is gone: so are its grammars, their vocabulary and their threads. */
  forget(model: ServedModel): void {
    this.#gone.add(model);
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
    // Threads that do not end as they should are lost; nobody waits for them but the end of all.
    const ended = compiler[Symbol.asyncDispose]()
      .catch(() => {})
      .finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  #compilerOf({ tokenizer, vocabularySize }: ServedModel): GrammarCompiler {
    const known = this.#compilers.get(tokenizer);
    if (known !== undefined) return known;
    const compiler = new GrammarCompiler(tokenizer, { vocabularySize });
    this.#compilers.set(tokenizer, compiler);
    return compiler;
  }
}
