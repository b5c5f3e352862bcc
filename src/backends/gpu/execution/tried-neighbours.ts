// Which neighbours of a kernel's parameters a search tries at a time.

import { familyOf, type FamilyName, type KernelParameters } from "../lowering/kernel-families.js";

/** Of parameters with more candidates than this, only some near and some far ones are tried at a time. */
const MAX_TRIED_CANDIDATES = 5;

/**
 * Whether a neighbour is tried: of a parameter with many candidates those 1, 2, 4 … places away, which find the best in
 * a few rounds without timing all of them.
 */
export function isTriedFrom(family: FamilyName, from: KernelParameters, neighbour: KernelParameters): boolean {
  const { parameters } = familyOf(family);
  return Object.entries(parameters).every(([name, candidates]) => {
    if (neighbour[name] === from[name] || candidates.length <= MAX_TRIED_CANDIDATES) return true;
    const place = (value: number): number =>
      candidates.filter((candidate) => candidate < value).length + (candidates.includes(value) ? 0 : -0.5);
    const distance = Math.ceil(Math.abs(place(neighbour[name]) - place(from[name])));
    return Number.isInteger(Math.log2(distance));
  });
}
