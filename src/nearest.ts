// The names closest to a misspelt one, for error messages. Bounded: hostile files have long lists of long names.

const MAX_COMPARED_LENGTH = 128;
const MAX_COMPARED_NAMES = 4096;

/** At most `count` of the first few thousand `names`, the fewest edits away first. */
export function nearestNames(wanted: string, names: Iterable<string>, count = 3): string[] {
  const scored: { readonly name: string; readonly distance: number }[] = [];
  for (const name of names) {
    scored.push({ name, distance: editDistance(wanted, name) });
    if (scored.length === MAX_COMPARED_NAMES) break;
  }
  scored.sort((left, right) => left.distance - right.distance || left.name.localeCompare(right.name));
  return scored.slice(0, count).map(({ name }) => name);
}

/** Insertions, deletions and replacements that turn one into the other. */
export function editDistance(left: string, right: string): number {
  const from = left.slice(0, MAX_COMPARED_LENGTH);
  const to = right.slice(0, MAX_COMPARED_LENGTH);
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replaced = previous[column - 1] + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[column] + 1, current[column - 1] + 1));
    }
    previous = current;
  }
  return previous[to.length];
}
