// A few of many things that still show every value of every property, or every pair of values that occurs: the define sets
// of a kernel file number hundreds, and what breaks a compiler is almost always one value or two together.

export type Properties = Readonly<Record<string, string | number>>;

/** How many properties are looked at together. */
export type Strength = 1 | 2;

/** Greedy and in a fixed order: the next is the one that shows most that is new, the first of several such. */
export function cover<Item>(
  items: readonly Item[],
  propertiesOf: (item: Item) => Properties,
  strength: Strength,
): readonly Item[] {
  const shows = items.map((item) => combinations(propertiesOf(item), strength));
  const missing = new Set(shows.flat());
  const chosen: number[] = [];
  while (missing.size > 0) {
    let [best, most] = [-1, 0];
    for (const [index, shown] of shows.entries()) {
      const fresh = shown.reduce((count, combination) => count + (missing.has(combination) ? 1 : 0), 0);
      if (fresh > most) [best, most] = [index, fresh];
    }
    chosen.push(best);
    for (const combination of shows[best]) missing.delete(combination);
  }
  return chosen.toSorted((left, right) => left - right).map((index) => items[index]);
}

function combinations(properties: Properties, strength: Strength): readonly string[] {
  const singles = Object.keys(properties)
    .toSorted()
    .map((name) => `${name}=${properties[name]}`);
  // Something without properties is to be shown too.
  if (singles.length === 0) return ["nothing"];
  if (strength === 1 || singles.length === 1) return singles;
  return singles.flatMap((left, index) => singles.slice(index + 1).map((right) => `${left} ${right}`));
}
