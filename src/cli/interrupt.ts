// SIGINT (Ctrl-C), SIGTERM and SIGHUP: the first one aborts the work, so that its resources are freed; the second one
// exits at once.

import { constants } from "node:os";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** Shells report 128 plus the signal's number for a program that was ended by a signal. */
const SIGNAL_STATUS_BASE = 128;

/** How soon npm forwards a signal that the terminal has already sent to the whole process group. */
const FORWARDED_SIGNAL_MS = 300;

/** How repeated signals are treated. */
interface InterruptOptions {
  /**
   * Waits for the work to end whatever further signals come: npm forwards signals that the terminal has already sent.
   */
  readonly ignoresRepeats?: boolean;
  /** Ignores a second signal that comes at once, as an echo of the first. */
  readonly ignoresEchoes?: boolean;
}

/** Ends a command that a signal has interrupted: `message` is printed, `exitStatus` is the command's. */
export class Interrupted extends Error {
  readonly exitStatus: number;

  constructor(message: string, exitStatus: number) {
    super(message);
    this.exitStatus = exitStatus;
  }
}

/** Turns the first signal of the process into an abort, and the second into an exit. */
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

  /** 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP, 0 if no signal came. */
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
    else if (this.#ignoresEchoes && performance.now() - this.#firstMs < FORWARDED_SIGNAL_MS) return;
    this.#exitStatus = SIGNAL_STATUS_BASE + constants.signals[name];
    if (repeated) process.exit(this.#exitStatus);
    this.#controller.abort();
  };
}
