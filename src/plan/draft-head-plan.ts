// The draft head (MTP) of a model, compiled beside the model's own program. Both use one KV cache: the model's steps store what
// the head attends to, and the head's steps draft. Invariant: a step of the head has one token for each sequence.

import type {
  Backend,
  CompiledProgram,
  KvCache,
  OutputRow,
  ProgramLimits,
  RunOptions,
  StepInput,
} from "../backends/contract.js";
import type { Program } from "../graph/program.js";
import type { TensorPin } from "../loader/device-cache.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { LazyTensor } from "../tensor/lazy-tensor.js";
import { refuseStep } from "./state-slot-check.js";
import { StepCheck } from "./step-check.js";

/** Runs steps of a draft head. */
export class DraftHeadPlan implements AsyncDisposable {
  readonly program: Program;
  /** The head's weights, some of which are the model's own. */
  readonly tensors: readonly LazyTensor[];
  readonly #compiled: CompiledProgram;
  readonly #check: StepCheck;
  readonly #pin: TensorPin;
  readonly #running = new Set<Promise<unknown>>();

  constructor(loader: GgufLoader, backend: Backend, program: Program, limits: ProgramLimits) {
    const { kv, vocabularySize } = program;
    this.program = program;
    this.#check = new StepCheck({ ...limits, vocabularySize, kv });
    this.tensors = program.weights.map((spec) => loader.lazy(spec.name, backend, spec));
    // Last, because the compiled program has to be released.
    this.#compiled = backend.compile(program, this.tensors, limits);
    this.#pin = loader.pin(this.tensors);
  }

  /**
   * Drafts the token after each sequence's one token. `stateReads` names the slot with the hidden state before that token:
   * the sequence's own for the first draft, and the one that the draft before it wrote for the next.
   */
  async step(step: StepInput, kvCache: KvCache, options: RunOptions = {}): Promise<readonly OutputRow[]> {
    this.#check.check(step, kvCache);
    const sequences = step.sequenceOffsets.length - 1;
    if (step.tokens.length !== sequences)
      refuseStep("tokens", "one token of each sequence", String(step.tokens.length));
    const run = this.#compiled.run(step, kvCache, options);
    this.#running.add(run);
    try {
      return await run;
    } finally {
      this.#running.delete(run);
    }
  }

  /** Waits for running steps; the caller cancels them first. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#running);
    this.#compiled[Symbol.dispose]();
    this.#pin[Symbol.dispose]();
  }
}
