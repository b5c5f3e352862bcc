// The tokens that a constraint allows next, computed ahead of the step that needs them. A mask that is late, invalid or
// fails only fails its own request.

import { GrammarError } from "../errors.js";
import type { MaskBarrier } from "./mask-barrier.js";
import type { TokenConstraint } from "./serving.js";

interface NextTokensContext {
  readonly vocabularySize: number;
  readonly timeoutMs: number;
  readonly barrier: MaskBarrier;
}

interface MaskListener {
  ready(): void;
  fail(error: unknown): void;
}

/** Requests masks from one sequence's constraint and holds the current one. */
export class NextTokens implements Disposable {
  readonly #constraint: TokenConstraint;
  readonly #context: NextTokensContext;
  /** The mask that is being computed, and its round. */
  #asked: { readonly round: number } | undefined;
  #mask: Uint32Array | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(constraint: TokenConstraint, context: NextTokensContext) {
    this.#constraint = constraint;
    this.#context = context;
  }

  get mask(): Uint32Array | undefined {
    return this.#mask;
  }

  /** Whether a finished text is checked. */
  get checksEnd(): boolean {
    return this.#constraint.finish !== undefined;
  }

  /** Requests the next mask; the listener is called later, unless this is disposed before. */
  ask(listener: MaskListener): void {
    this.#wait(listener, () => this.#answer());
  }

  /** Lets the constraint check the finished text; the listener is called as for a mask. */
  finish(listener: MaskListener): void {
    this.#wait(listener, async () => {
      await this.#constraint.finish?.();
      return undefined;
    });
  }

  #wait(listener: MaskListener, question: () => Promise<Uint32Array | undefined>): void {
    const { barrier, timeoutMs } = this.#context;
    const asked = { round: barrier.asked() };
    this.#asked = asked;
    this.#mask = undefined;
    const settle = (tell: () => void): void => {
      if (this.#asked !== asked) return;
      this.#stopWaiting();
      tell();
    };
    this.#timer = setTimeout(() => settle(() => listener.fail(tooSlow(timeoutMs))), timeoutMs);
    question().then(
      (mask) =>
        settle(() => {
          this.#mask = mask;
          listener.ready();
        }),
      (error: unknown) => settle(() => listener.fail(error)),
    );
  }

  accept(token: number): void {
    this.#constraint.accept(token);
  }

  /** A copy with the same state; its first mask has to be requested. */
  fork(): NextTokens {
    return new NextTokens(this.#constraint.fork(), this.#context);
  }

  [Symbol.dispose](): void {
    this.#stopWaiting();
    this.#constraint[Symbol.dispose]();
  }

  async #answer(): Promise<Uint32Array | undefined> {
    const mask = await this.#constraint.allowed();
    const words = Math.ceil(this.#context.vocabularySize / 32);
    if (mask === undefined || (mask instanceof Uint32Array && mask.length === words)) return mask;
    throw new GrammarError(
      "GRAMMAR_INVALID",
      `[complete] mask: expected a Uint32Array of ${words} words, found ${mask.length}`,
      { details: { words } },
    );
  }

  #stopWaiting(): void {
    if (this.#asked === undefined) return;
    const { round } = this.#asked;
    this.#asked = undefined;
    clearTimeout(this.#timer);
    this.#context.barrier.settled(round);
  }
}

function tooSlow(timeoutMs: number): GrammarError {
  return new GrammarError(
    "GRAMMAR_LIMIT",
    `[complete] the grammar did not compute the allowed tokens within ${timeoutMs} ms`,
    {
      details: { timeoutMs },
    },
  );
}
