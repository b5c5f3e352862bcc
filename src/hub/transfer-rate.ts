// The rate of a transfer over the last seconds, and the time that the rest will take.

const WINDOW_MS = 10_000;
/** Samples closer together than this are one. */
const SAMPLE_MS = 200;

/** Measures how fast bytes arrive. */
export class TransferRate {
  readonly #samples: { readonly ms: number; bytes: number }[] = [];
  readonly #startMs: number;

  constructor(nowMs = performance.now()) {
    this.#startMs = nowMs;
  }

  add(bytes: number, nowMs = performance.now()): void {
    const last = this.#samples.at(-1);
    if (last !== undefined && nowMs - last.ms < SAMPLE_MS) last.bytes += bytes;
    else this.#samples.push({ ms: nowMs, bytes });
    while (this.#samples.length > 0 && nowMs - this.#samples[0].ms > WINDOW_MS) this.#samples.shift();
  }

  /** Bytes per second; 0 before anything has arrived. */
  bytesPerSecond(nowMs = performance.now()): number {
    const bytes = this.#samples.reduce((total, sample) => total + sample.bytes, 0);
    const elapsedMs = Math.min(WINDOW_MS, nowMs - this.#startMs);
    return bytes === 0 || elapsedMs <= 0 ? 0 : (1000 * bytes) / elapsedMs;
  }
}
