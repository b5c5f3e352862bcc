// The masks along a path of tokens that may follow a text: those of a draft as far as they are allowed, and tokens that
// the grammar forces, which are drafts that cannot be wrong.

import type { GrammarMatcher } from "./matcher.js";

/** Tokens to follow. */
interface Path {
  readonly draft: readonly number[];
  readonly most: number;
  /** No token is followed after this time. */
  readonly timeMs: number;
}

/**
 * Writes the masks after each token of a path behind the first one in `masks`, `words` words each, and returns the tokens
 * that were followed. The matcher stays where it is.
 */
export function writePath(matcher: GrammarMatcher, masks: Uint32Array, words: number, path: Path): readonly number[] {
  const { draft, most, timeMs } = path;
  const fork = matcher.fork();
  const followed: number[] = [];
  const endMs = performance.now() + timeMs;
  let isDraft = true;
  while (followed.length < most && performance.now() < endMs) {
    const at = followed.length;
    const mask = masks.subarray(at * words, (at + 1) * words);
    isDraft &&= at < draft.length && isAllowed(mask, draft[at]);
    const token = isDraft ? draft[at] : onlyToken(mask);
    if (token === undefined || !fork.accept(token)) break;
    if (!fork.writeMask(masks.subarray((at + 1) * words, (at + 2) * words))) break;
    followed.push(token);
  }
  return followed;
}

function isAllowed(mask: Uint32Array, token: number): boolean {
  return ((mask[token >>> 5] >>> (token & 31)) & 1) === 1;
}

/** The token of a mask that allows no other. */
function onlyToken(mask: Uint32Array): number | undefined {
  let found: number | undefined;
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word];
    if (bits === 0) continue;
    if (found !== undefined || (bits & (bits - 1)) !== 0) return undefined;
    found = word * 32 + (31 - Math.clz32(bits));
  }
  return found;
}
