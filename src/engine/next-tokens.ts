// The tokens that a constraint allows next, computed ahead of the step that needs them. A mask that is late, invalid or
// fails only fails its own request.

import { GrammarError } from "../errors.js";
import type { MaskBarrier } from "./mask-barrier.js";
import type { AllowedPath, TokenConstraint } from "./serving.js";

const NO_DRAFT: Int32Array = new Int32Array();
const NO_PATH: AllowedPath = { tokens: [], masks: [] };
const NO_REQUEST: DraftRequest = { draft: NO_DRAFT, most: 0 };

/** Tokens that may be sampled after the next one. */
interface DraftRequest {
  readonly draft: Int32Array;
  /** Maximum length of a draft, forced tokens included. */
  readonly most: number;
}

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
  #masks: readonly (Uint32Array | undefined)[] = [];
  #draft: Int32Array = NO_DRAFT;
  #timer: NodeJS.Timeout | undefined;

  constructor(constraint: TokenConstraint, context: NextTokensContext) {
    this.#constraint = constraint;
    this.#context = context;
  }

  /** The tokens of the requested draft that the constraint allows, or tokens that it forces. */
  get draft(): Int32Array {
    return this.#draft;
  }

  /** The mask of the next token, or of the one after some tokens of the draft. */
  maskAfter(draftTokens: number): Uint32Array | undefined {
    return this.#masks[draftTokens];
  }

  /** Whether a finished text is checked. */
  get checksEnd(): boolean {
    return this.#constraint.finish !== undefined;
  }

  /**
   * Requests the next mask, and those after each token of a draft; the listener is called later, unless this is disposed
   * or asked again before.
   */
  ask(listener: MaskListener, request: DraftRequest = NO_REQUEST): void {
    this.#wait(listener, () => this.#answer(request));
  }

  /** Lets the constraint check the finished text; the listener is called as for a mask. */
  finish(listener: MaskListener): void {
    this.#wait(listener, async () => {
      await this.#constraint.finish?.();
      return NO_PATH;
    });
  }

  #wait(listener: MaskListener, question: () => Promise<AllowedPath>): void {
    this.#stopWaiting();
    const { barrier, timeoutMs } = this.#context;
    const asked = { round: barrier.asked() };
    this.#asked = asked;
    this.#masks = [];
    this.#draft = NO_DRAFT;
    const settle = (tell: () => void): void => {
      if (this.#asked !== asked) return;
      this.#stopWaiting();
      tell();
    };
    this.#timer = setTimeout(() => settle(() => listener.fail(tooSlow(timeoutMs))), timeoutMs);
    question().then(
      ({ tokens, masks }) =>
        settle(() => {
          this.#masks = masks;
          this.#draft = Int32Array.from(tokens);
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

  async #answer({ draft, most }: DraftRequest): Promise<AllowedPath> {
    const path =
      most > 0 && this.#constraint.allowedAlong !== undefined
        ? await this.#constraint.allowedAlong([...draft], most)
        : { tokens: [], masks: [await this.#constraint.allowed()] };
    for (const mask of path.masks) this.#check(mask);
    return path;
  }

  #check(mask: Uint32Array | undefined): void {
    const words = Math.ceil(this.#context.vocabularySize / 32);
    if (mask === undefined || (mask instanceof Uint32Array && mask.length === words)) return;
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
