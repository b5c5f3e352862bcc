// Unicode properties (\p{L}, \p{Script=Greek}) as character sets, found by testing each character with JavaScript's own
// tables.

import { CharSet, MAX_CODE } from "../char-set.js";
import { checkTime } from "../compile-time.js";

const known = new Map<string, CharSet>();
/** Properties that are cached; patterns use few of the several hundred. */
const MAX_KNOWN = 64;
const SURROGATES = { from: 0xd800, to: 0xdfff } as const;

/** The characters of a property; undefined if there is none of that name. */
export function unicodeProperty(name: string): CharSet | undefined {
  const before = known.get(name);
  if (before !== undefined) return before;
  const property = expressionOf(name);
  if (property === undefined) return undefined;
  const pairs: [number, number][] = [];
  let from = -1;
  for (let code = 0; code <= MAX_CODE + 1; code++) {
    checkTime();
    const has =
      code <= MAX_CODE && (code < SURROGATES.from || code > SURROGATES.to) && property.test(String.fromCodePoint(code));
    if (has && from === -1) from = code;
    if (has || from === -1) continue;
    pairs.push([from, code - 1]);
    from = -1;
  }
  if (known.size >= MAX_KNOWN) known.clear();
  const set = CharSet.of(...pairs);
  known.set(name, set);
  return set;
}

function expressionOf(name: string): RegExp | undefined {
  try {
    return new RegExp(`^\\p{${name}}$`, "u");
  } catch {
    return undefined;
  }
}
