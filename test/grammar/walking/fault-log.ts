// What a test over thousands of cases found wrong: it goes on to its end, and shows the first of each case.

/** A test by its title. */
export type NamedTest = readonly [title: string, run: () => Promise<void>];

const SHOWN = 12;
const SHOWN_CHARACTERS = 3000;

export class FaultLog {
  readonly #first: string[] = [];
  readonly #cases = new Set<string>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** `fault.form` tells cases apart. */
  add(fault: { readonly form: unknown; readonly [detail: string]: unknown }): void {
    this.#total++;
    const key = JSON.stringify(fault.form);
    if (this.#cases.has(key)) return;
    this.#cases.add(key);
    if (this.#first.length < SHOWN) this.#first.push(JSON.stringify(fault).slice(0, SHOWN_CHARACTERS));
  }

  /** Runs one case; what it throws is a fault of that case. */
  async guard(form: unknown, run: () => void | Promise<void>): Promise<void> {
    try {
      await run();
    } catch (error) {
      this.add({ form, thrown: error instanceof Error ? error.message : String(error) });
    }
  }

  expectNone(): void {
    if (this.#total > 0)
      throw new Error(
        `${this.#total} faults in ${this.#cases.size} cases, of which the first are:\n${this.#first.join("\n")}`,
      );
  }
}
