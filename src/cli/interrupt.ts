// Ctrl-C and a polite kill: the first asks the work to end, so that what it holds is freed; the second ends it at once.

import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
/** What shells report for a program that a signal ended. */
const SIGNAL_STATUS_BASE = 128;

export class Interrupt implements Disposable {
  readonly #controller = new AbortController();
  #exitStatus = 0;

  constructor() {
    for (const name of SIGNALS) process.on(name, this.#receive);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** 130 after Ctrl-C, 143 after a kill, 0 when neither came. */
  get exitStatus(): number {
    return this.#exitStatus;
  }

  [Symbol.dispose](): void {
    for (const name of SIGNALS) process.off(name, this.#receive);
  }

  readonly #receive = (name: NodeJS.Signals): void => {
    const repeated = this.#exitStatus !== 0;
    this.#exitStatus = SIGNAL_STATUS_BASE + constants.signals[name];
    if (repeated) process.exit(this.#exitStatus);
    this.#controller.abort();
  };
}
