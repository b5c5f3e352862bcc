// The algorithms that a BLAS library chose for matmul shapes, so that neighbouring token counts share a choice and a
// later process need not search again. Stored as JSON in an entry of the kernel cache: shape → the algorithm's bytes in
// hexadecimal. Data from disk is not trusted: text that is not exactly of this form is ignored as a whole, and the BLAS
// library checks every algorithm against the matmul it is used for.

import { isPlainObject, parsedJson } from "../../../plain-object.js";

/** Far more than the shapes of a few models at all token counts. */
const MAX_CHOICES = 4096;
const SHAPE = /^\d{1,10}(?: \d{1,10}){4}$/;
/** Up to here every token count has its own choice. */
const MAX_EXACT_TOKENS = 128;
/** From each token count on, choices are made for multiples of `unit`. */
const UNITS = [
  { above: 2048, unit: 512 },
  { above: 1024, unit: 256 },
  { above: MAX_EXACT_TOKENS, unit: 128 },
] as const;

/** The token count whose algorithm a matmul of `tokens` tokens uses. */
export function choiceTokens(tokens: number, most = Number.POSITIVE_INFINITY): number {
  const unit = UNITS.find(({ above }) => tokens > above)?.unit ?? 1;
  return Math.min(most, Math.ceil(tokens / unit) * unit);
}

/** Algorithms by matmul shape, restored from disk and stored again if they have changed. */
export class AlgorithmChoices {
  readonly #algorithmBytes: number;
  readonly #choices = new Map<string, Uint8Array>();
  #hasChanged = false;

  /** `algorithmBytes` is the size of an algorithm in this library. */
  constructor(algorithmBytes: number) {
    this.#algorithmBytes = algorithmBytes;
  }

  get size(): number {
    return this.#choices.size;
  }

  /** The algorithm for a shape's key, if one was chosen. */
  get(shape: string): Uint8Array | undefined {
    return this.#choices.get(shape);
  }

  set(shape: string, algorithm: Uint8Array): void {
    if (this.#choices.size >= MAX_CHOICES) this.#choices.clear();
    this.#choices.set(shape, algorithm.slice(0, this.#algorithmBytes));
    this.#hasChanged = true;
  }

  /** Restores the choices of an earlier process; false if the bytes are not in this format. */
  restore(kept: Uint8Array): boolean {
    const entries = parseChoices(kept, this.#algorithmBytes);
    for (const [shape, algorithm] of entries ?? []) if (!this.#choices.has(shape)) this.#choices.set(shape, algorithm);
    return entries !== undefined;
  }

  /** All choices in their stored form; undefined if nothing has changed since the last call. */
  changed(): Uint8Array | undefined {
    if (!this.#hasChanged) return undefined;
    this.#hasChanged = false;
    const entries = Array.from(
      this.#choices,
      ([shape, algorithm]) => [shape, Buffer.from(algorithm).toString("hex")] as const,
    );
    return Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  }
}

function parseChoices(kept: Uint8Array, algorithmBytes: number): ReadonlyMap<string, Uint8Array> | undefined {
  const value = parsedJson(Buffer.from(kept).toString("utf8"));
  if (!isPlainObject(value)) return undefined;
  const entries = Object.entries(value);
  const hexadecimal = new RegExp(`^[0-9a-f]{${algorithmBytes * 2}}$`);
  if (entries.length > MAX_CHOICES) return undefined;
  const choices = new Map<string, Uint8Array>();
  for (const [shape, text] of entries) {
    if (!SHAPE.test(shape) || typeof text !== "string" || !hexadecimal.test(text)) return undefined;
    choices.set(shape, Uint8Array.from(Buffer.from(text, "hex")));
  }
  return choices;
}
