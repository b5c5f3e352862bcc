// A constraint whose grammar is still being compiled: its completion starts with prefill meanwhile, and waits for the
// first mask.

import type { AllowedPath, TokenConstraint } from "../engine/serving.js";

/** A constraint that becomes available later. */
export class PendingConstraint implements TokenConstraint {
  readonly #pending: Promise<TokenConstraint>;
  #constraint: TokenConstraint | undefined;
  #isDisposed = false;

  constructor(pending: Promise<TokenConstraint>) {
    this.#pending = pending.then((constraint) => {
      if (this.#isDisposed) constraint[Symbol.dispose]();
      this.#constraint = constraint;
      return constraint;
    });
    // The completion requests a mask and gets the failure then.
    this.#pending.catch(() => {});
  }

  async allowed(): Promise<Uint32Array | undefined> {
    return await (await this.#pending).allowed();
  }

  async allowedAlong(draft: readonly number[], most: number): Promise<AllowedPath> {
    const constraint = await this.#pending;
    if (constraint.allowedAlong !== undefined) return await constraint.allowedAlong(draft, most);
    return { tokens: [], masks: [await constraint.allowed()] };
  }

  accept(token: number): void {
    this.#known().accept(token);
  }

  async finish(): Promise<void> {
    await (await this.#pending).finish?.();
  }

  fork(): TokenConstraint {
    return this.#known().fork();
  }

  [Symbol.dispose](): void {
    if (!this.#isDisposed) this.#constraint?.[Symbol.dispose]();
    this.#isDisposed = true;
  }

  /** Tokens are accepted only after a mask, so the constraint is available by then. */
  #known(): TokenConstraint {
    if (this.#constraint === undefined) throw new TypeError("a token was accepted before the first mask");
    return this.#constraint;
  }
}
