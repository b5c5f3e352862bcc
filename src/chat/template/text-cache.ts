// Rendered texts by key, the least recently used ones dropped first. Bounded by count and by characters: one long chat
// must not cost what a thousand short ones do.

import type { RenderedText } from "../prompt-text.js";

export interface TextCacheLimits {
  readonly texts: number;
  readonly characters: number;
}

export class TextCache {
  readonly #limits: TextCacheLimits;
  readonly #texts = new Map<string, RenderedText>();
  #characters = 0;

  constructor(limits: TextCacheLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#texts.size;
  }

  get characters(): number {
    return this.#characters;
  }

  get(key: string): RenderedText | undefined {
    const text = this.#texts.get(key);
    if (text === undefined) return undefined;
    // A map keeps the order of insertion, which is that of use by this.
    this.#texts.delete(key);
    this.#texts.set(key, text);
    return text;
  }

  set(key: string, text: RenderedText): void {
    this.#drop(key);
    if (sizeOf(text) > this.#limits.characters) return;
    this.#texts.set(key, text);
    this.#characters += sizeOf(text);
    while (this.#texts.size > this.#limits.texts || this.#characters > this.#limits.characters)
      this.#drop(this.#texts.keys().next().value as string);
  }

  #drop(key: string): void {
    const text = this.#texts.get(key);
    if (text === undefined) return;
    this.#texts.delete(key);
    this.#characters -= sizeOf(text);
  }
}

/** A border takes what some characters do. */
function sizeOf({ text, untrusted }: RenderedText): number {
  return text.length + 4 * untrusted.length;
}
