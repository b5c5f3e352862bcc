// Ctrl-C, a polite kill and a closed terminal: the work ends, and what it wrote is removed. Unlike the command line's own
// handling a repeated signal changes nothing: npm and the scripts pass on what the terminal has already sent to everyone.

import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** What shells report for a program that a signal ended. */
const SIGNAL_STATUS_BASE = 128;

export class Interruption implements Disposable {
  readonly #controller = new AbortController();
  #exitStatus = 0;

  constructor() {
    for (const name of SIGNALS) process.on(name, this.#receive);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get exitStatus(): number {
    return this.#exitStatus;
  }

  [Symbol.dispose](): void {
    for (const name of SIGNALS) process.off(name, this.#receive);
  }

  readonly #receive = (name: NodeJS.Signals): void => {
    if (this.#exitStatus === 0) this.#exitStatus = SIGNAL_STATUS_BASE + constants.signals[name];
    this.#controller.abort();
  };
}
