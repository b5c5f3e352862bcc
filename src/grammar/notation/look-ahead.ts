// Look-aheads at the start of a regular expression, as in ^(?!test-)[a-z-]+$: they apply to the whole text, and become
// further patterns that must or must not match. Other look-aheads are refused.

interface SplitPattern {
  /** The expression without its look-aheads. */
  readonly rest: string;
  /** Patterns that must match as well. */
  readonly found: readonly string[];
  /** Patterns that must not match. */
  readonly missing: readonly string[];
}

const LOOK_AHEAD = /^\(\?([=!])/;

/**
 * Separates the look-aheads at the start of a regular expression from the rest; without any, `rest` is the whole
 * pattern.
 */
export function splitLookAheads(pattern: string): SplitPattern {
  const found: string[] = [];
  const missing: string[] = [];
  let rest = pattern.startsWith("^") ? pattern.slice(1) : undefined;
  for (
    let look = rest === undefined ? null : LOOK_AHEAD.exec(rest);
    look !== null && rest !== undefined;
    look = LOOK_AHEAD.exec(rest)
  ) {
    const end = closing(rest);
    if (end === undefined) break;
    (look[1] === "=" ? found : missing).push(fromStart(rest.slice(look[0].length, end)));
    rest = rest.slice(end + 1);
  }
  // If there are alternatives, the look-ahead applies to the first one only.
  if (rest === undefined || found.length + missing.length === 0 || isChoice(rest))
    return { rest: pattern, found: [], missing: [] };
  return { rest: `^${rest}`, found, missing };
}

function fromStart(inside: string): string {
  return isChoice(inside) ? `^(?:${inside})` : `^${inside}`;
}

/** The index at which the group at the start of a text ends. */
function closing(text: string): number | undefined {
  for (const { place, depth } of groups(text)) if (depth === 0 && text[place] === ")") return place;
  return undefined;
}

function isChoice(text: string): boolean {
  for (const { place, depth } of groups(text)) if (depth === 0 && text[place] === "|") return true;
  return false;
}

/** The characters that are neither escaped nor in a class, with the number of open groups after each. */
function* groups(text: string): Generator<{ readonly place: number; readonly depth: number }, void, undefined> {
  let depth = 0;
  let inClass = false;
  for (let place = 0; place < text.length; place++) {
    const character = text[place];
    if (character === "\\") {
      place++;
      continue;
    }
    if (inClass) {
      inClass = character !== "]";
      continue;
    }
    if (character === "[") inClass = true;
    if (character === "(") depth++;
    if (character === ")") depth--;
    yield { place, depth };
  }
}
