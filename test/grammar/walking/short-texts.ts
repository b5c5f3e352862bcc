// Every text of up to so many bytes over an alphabet: those that an automaton accepts, found by following it, and those
// that there are at all.

import type { GrammarMatcher } from "../../../src/grammar/automaton/matcher.js";

/** As latin1 texts, one character a byte. */
export function acceptedTexts(start: GrammarMatcher, alphabet: readonly number[], maxBytes: number): Set<string> {
  const found = new Set<string>();
  const bytes = alphabet.map((byte) => Uint8Array.of(byte));
  const follow = (matcher: GrammarMatcher, text: string): void => {
    if (matcher.accepting) found.add(text);
    if (text.length === maxBytes) return;
    for (const byte of bytes) {
      const next = matcher.fork();
      if (next.acceptBytes(byte)) follow(next, text + String.fromCharCode(byte[0] as number));
    }
  };
  follow(start, "");
  return found;
}

export function* allTexts(alphabet: readonly number[], maxBytes: number): Generator<string, void, undefined> {
  const letters = alphabet.map((byte) => String.fromCharCode(byte));
  let longest = [""];
  yield "";
  for (let length = 1; length <= maxBytes; length++) {
    longest = longest.flatMap((text) => letters.map((letter) => text + letter));
    yield* longest;
  }
}

export function alphabetOf(texts: Iterable<string>): number[] {
  return [...new Set([...texts].flatMap((text) => [...Buffer.from(text)]))].sort((a, b) => a - b);
}

export function bytesOfLatin1(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}
