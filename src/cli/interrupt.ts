// Ctrl-C, a polite kill and a closed terminal: the first asks the work to end, so that what it holds is freed; the second
// ends it at once.

import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** What shells report for a program that a signal ended. */
const SIGNAL_STATUS_BASE = 128;

/** Of npm, which sends again what the terminal sent to everyone. */
const ECHO_MS = 300;

export interface InterruptOptions {
  /** Waits for the work whatever comes: a program under npm is sent by it again what the terminal sent to everyone. */
  readonly ignoresRepeats?: boolean;
  /** Takes a repeat that comes at once for an echo of the first. */
  readonly ignoresEchoes?: boolean;
}

export class Interrupt implements Disposable {
  readonly #controller = new AbortController();
  readonly #ignoresRepeats: boolean;
  readonly #ignoresEchoes: boolean;
  #exitStatus = 0;
  #firstMs = 0;

  constructor({ ignoresRepeats = false, ignoresEchoes = false }: InterruptOptions = {}) {
    this.#ignoresRepeats = ignoresRepeats;
    this.#ignoresEchoes = ignoresEchoes;
    for (const name of SIGNALS) process.on(name, this.#receive);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** 130 after Ctrl-C, 143 after a kill, 129 after a closed terminal, 0 when none came. */
  get exitStatus(): number {
    return this.#exitStatus;
  }

  [Symbol.dispose](): void {
    for (const name of SIGNALS) process.off(name, this.#receive);
  }

  readonly #receive = (name: NodeJS.Signals): void => {
    const repeated = this.#exitStatus !== 0;
    if (repeated && this.#ignoresRepeats) return;
    if (!repeated) this.#firstMs = performance.now();
    else if (this.#ignoresEchoes && performance.now() - this.#firstMs < ECHO_MS) return;
    this.#exitStatus = SIGNAL_STATUS_BASE + constants.signals[name];
    if (repeated) process.exit(this.#exitStatus);
    this.#controller.abort();
  };
}
