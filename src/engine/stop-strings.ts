// Ends text at the first stop string, and holds back a tail that may yet become one: what has been emitted never has
// to be taken back.

export interface StopResult {
  /** Text that is safe to show. */
  readonly text: string;
  readonly stopped: boolean;
}

export class StopStrings {
  readonly #stops: readonly string[];
  #held = "";

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  push(text: string): StopResult {
    const whole = this.#held + text;
    const found = this.#stops.map((stop) => whole.indexOf(stop)).filter((index) => index !== -1);
    if (found.length > 0) {
      this.#held = "";
      return { text: whole.slice(0, Math.min(...found)), stopped: true };
    }
    const kept = this.#possibleStart(whole);
    this.#held = whole.slice(whole.length - kept);
    return { text: whole.slice(0, whole.length - kept), stopped: false };
  }

  /** What was held back and turned out not to be a stop string. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  /** Length of the longest tail that begins a stop string. */
  #possibleStart(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      const most = Math.min(stop.length - 1, text.length);
      for (let length = most; length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
