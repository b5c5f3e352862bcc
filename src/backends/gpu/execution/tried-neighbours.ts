// Which parameters a search tries next to those of a kernel: what differs in one of them, near and far at first and near
// later; and if a launch cannot be cut so, the nearest that differs in another one, too.

import type { KernelChoices } from "../lowering/kernel-choices.js";
import { familyOf, type FamilyName, type KernelParameters } from "../lowering/kernel-families.js";

/** Of parameters with more candidates than this, only some are tried at a time. */
const MAX_TRIED_CANDIDATES = 5;
/** Places from the present value to those that are tried in later rounds. */
const NEAR_PLACES = 2;

/** The parameters of a kernel that is tuned, and how its launches can be cut. */
export interface CutKernel {
  readonly family: FamilyName;
  isValid(parameters: KernelParameters): boolean;
}

/** What a search tries from here in this round. */
export function triedNeighbours(
  { family, isValid }: CutKernel,
  choices: KernelChoices,
  from: KernelParameters,
  round: number,
): readonly KernelParameters[] {
  return choices
    .neighbours(family, from)
    .filter((neighbour) => isTriedFrom(family, from, neighbour, round))
    .flatMap((neighbour) =>
      isValid(neighbour) ? [neighbour] : completed({ family, isValid }, choices, from, neighbour),
    );
}

/** The nearest valid parameters that differ from a neighbour in one more: more waves along the width, and fewer along rows. */
function completed(
  { family, isValid }: CutKernel,
  choices: KernelChoices,
  from: KernelParameters,
  neighbour: KernelParameters,
): readonly KernelParameters[] {
  const { parameters } = familyOf(family);
  const others = choices.tunable(family).filter((name) => neighbour[name] === from[name]);
  return others.flatMap((name) => {
    const distance = (value: number): number => Math.abs(value - from[name]);
    const nearest = parameters[name].toSorted((left, right) => distance(left) - distance(right));
    const value = nearest.find((each) => isValid({ ...neighbour, [name]: each }));
    return value === undefined ? [] : [{ ...neighbour, [name]: value }];
  });
}

/**
 * Whether a neighbour is tried. Of a parameter with many candidates those 1, 2, 4 … places away in the first round, which
 * finds the best in a few rounds without timing all of them, and only near ones later.
 */
export function isTriedFrom(
  family: FamilyName,
  from: KernelParameters,
  neighbour: KernelParameters,
  round: number,
): boolean {
  const { parameters } = familyOf(family);
  return Object.entries(parameters).every(([name, candidates]) => {
    if (neighbour[name] === from[name] || candidates.length <= MAX_TRIED_CANDIDATES) return true;
    const place = (value: number): number =>
      candidates.filter((candidate) => candidate < value).length + (candidates.includes(value) ? 0 : -0.5);
    const distance = Math.ceil(Math.abs(place(neighbour[name]) - place(from[name])));
    return round === 0 ? Number.isInteger(Math.log2(distance)) : distance <= NEAR_PLACES;
  });
}
