// The conversation so far: a system prompt, and turns of a message and its answer. Invariant: turns are complete, so
// that user and assistant alternate, as most templates require.

/** A user's message with its answer. */
export interface Turn {
  readonly message: string;
  readonly answer: string;
}

/** A message as templates expect it. */
export interface SpokenMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** A system prompt and the turns so far. */
export class Conversation {
  #system: string | undefined;
  #turns: Turn[] = [];

  constructor(system?: string) {
    this.#system = system;
  }

  get system(): string | undefined {
    return this.#system;
  }

  set system(text: string | undefined) {
    this.#system = text;
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  add(turn: Turn): void {
    this.#turns.push(turn);
  }

  takeLast(): Turn | undefined {
    return this.#turns.pop();
  }

  dropOldest(count: number): void {
    this.#turns.splice(0, count);
  }

  /** Removes all turns; the system prompt stays. */
  reset(): void {
    this.#turns = [];
  }

  replace({ system, turns }: { readonly system: string | undefined; readonly turns: readonly Turn[] }): void {
    this.#system = system;
    this.#turns = [...turns];
  }

  /** The messages for a template, without the first `dropped` turns, and with a message that has no answer yet. */
  messages(pending?: string, dropped = 0): readonly SpokenMessage[] {
    const messages: SpokenMessage[] = this.#system === undefined ? [] : [{ role: "system", content: this.#system }];
    for (const { message, answer } of this.#turns.slice(dropped)) {
      messages.push({ role: "user", content: message }, { role: "assistant", content: answer });
    }
    if (pending !== undefined) messages.push({ role: "user", content: pending });
    return messages;
  }
}
