// Every mask on every way through a list of texts, compared with the list: behind each beginning of a text the mask has
// to hold the tokens that lead to another beginning, and no other.

import { shown, type MaskWalker } from "./mask-walker.js";
import type { GrammarMatcher } from "../../../src/grammar/automaton/matcher.js";

/** What is wrong, in words; nothing if the masks allow exactly these texts. */
export function listFaults(walker: MaskWalker, texts: readonly Uint8Array[]): readonly string[] {
  const listed = texts.map(latin1);
  const ends = new Set(listed);
  const tokens = tokensByText(walker);
  const longest = Math.max(...[...tokens.keys()].map((text) => text.length));
  const waiting: { readonly text: string; readonly matcher: GrammarMatcher }[] = [
    { text: "", matcher: walker.start() },
  ];
  const seen = new Set([""]);
  const faults: string[] = [];
  for (let now = waiting.pop(); now !== undefined && faults.length === 0; now = waiting.pop()) {
    const { text, matcher } = now;
    const expected = new Map<number, string>();
    for (const whole of listed) {
      if (!whole.startsWith(text)) continue;
      for (let end = text.length + 1; end <= Math.min(whole.length, text.length + longest); end++) {
        for (const token of tokens.get(whole.slice(text.length, end)) ?? []) expected.set(token, whole.slice(0, end));
      }
    }
    const allowed = walker.allowed(matcher);
    const wanted = [...expected.keys(), ...(ends.has(text) ? walker.vocabulary.endTokens : [])].sort((a, b) => a - b);
    if (allowed.join() !== wanted.join()) {
      const spelled = (list: readonly number[], other: readonly number[]): string =>
        list
          .filter((token) => !other.includes(token))
          .map((token) => (walker.isEnd(token) ? "end" : shown([walker.bytesOf(token)])))
          .join(" ");
      faults.push(
        `behind ${JSON.stringify(text)}: not expected ${spelled(allowed, wanted)}; missing ${spelled(wanted, allowed)}`,
      );
    }
    for (const [token, after] of expected) {
      if (seen.has(after)) continue;
      seen.add(after);
      const next = matcher.fork();
      if (!next.accept(token))
        faults.push(`behind ${JSON.stringify(text)}: ${shown([walker.bytesOf(token)])} is refused`);
      waiting.push({ text: after, matcher: next });
    }
  }
  return faults;
}

function tokensByText(walker: MaskWalker): ReadonlyMap<string, readonly number[]> {
  const found = new Map<string, number[]>();
  for (let token = 0; token < walker.vocabulary.size; token++) {
    const text = latin1(walker.bytesOf(token));
    if (text === "") continue;
    const known = found.get(text);
    if (known === undefined) found.set(text, [token]);
    else known.push(token);
  }
  return found;
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}
