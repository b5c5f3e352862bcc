// Suggests the names that a misspelt one was probably meant to be, for error messages. A name that is too different is
// not suggested: it would mislead. The work is bounded, because hostile files have long lists of long names.

const MAX_COMPARED_LENGTH = 128;
const MAX_COMPARED_NAMES = 4096;
/** A suggestion needs at least three letters per edit; with more edits it is another word. */
const LETTERS_PER_EDIT = 3;
/** `top_k`, `top-k` and `topK` are spellings of one name. */
const SEPARATORS = /[-_]/g;

/**
 * At most `count` of the first few thousand `names`, fewest edits first. Only names within edits of a third of
 * `wanted`'s length are returned; case, hyphens and underscores are ignored.
 */
export function nearestNames(wanted: string, names: Iterable<string>, count = 3): string[] {
  const word = letters(wanted);
  const mostEdits = Math.floor(word.length / LETTERS_PER_EDIT);
  const scored: { readonly name: string; readonly distance: number }[] = [];
  let compared = 0;
  for (const name of names) {
    const distance = editDistance(word, letters(name));
    if (distance <= mostEdits) scored.push({ name, distance });
    if (++compared === MAX_COMPARED_NAMES) break;
  }
  scored.sort((left, right) => left.distance - right.distance || left.name.localeCompare(right.name));
  return scored.slice(0, count).map(({ name }) => name);
}

/** The text ` did you mean "x"?` to append after a semicolon; empty if no name is similar. */
export function didYouMean(
  wanted: string,
  names: Iterable<string>,
  spell: (name: string) => string = (name) => `"${name}"`,
): string {
  const [nearest] = nearestNames(wanted, names, 1);
  return nearest === undefined ? "" : ` did you mean ${spell(nearest)}?`;
}

function letters(name: string): string {
  return name.slice(0, MAX_COMPARED_LENGTH).toLowerCase().replace(SEPARATORS, "");
}

/** The number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
export function editDistance(left: string, right: string): number {
  const from = left.slice(0, MAX_COMPARED_LENGTH);
  const to = right.slice(0, MAX_COMPARED_LENGTH);
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replaced = previous[column - 1] + (from[row - 1] === to[column - 1] ? 0 : 1);
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      const best = Math.min(replaced, previous[column] + 1, current[column - 1] + 1);
      current.push(swapped ? Math.min(best, beforePrevious[column - 2] + 1) : best);
    }
    [beforePrevious, previous] = [previous, current];
  }
  return previous[to.length];
}
