// Length limits of strings with a pattern: an automaton that counts characters. For each state, the possible numbers of
// remaining characters are known, so that no text is begun that cannot end within its limits.

import { checkTime } from "../compile-time.js";
import type { Dfa } from "./dfa.js";

/** The least and greatest length of a string, in characters (code points). */
export interface LengthLimits {
  readonly min: number;
  /** The maximum length; may be Infinity. */
  readonly max: number;
}

/** An automaton, and which of its states are between two characters. */
export interface MeasuredDfa {
  readonly dfa: Dfa;
  readonly boundaries: readonly boolean[];
  readonly limits: LengthLimits;
}

const known = new WeakMap<MeasuredDfa, Measure>();

/** The possible remaining lengths of each state. */
export class Measure {
  readonly limits: LengthLimits;
  /** For each state, bit k is set if a text can end with k more characters. */
  readonly #endings: readonly Uint32Array[];
  /** The longest remaining text of each state, if there is no maximum. */
  readonly #longest: Float64Array;
  readonly #shortest: Float64Array;

  constructor({ dfa, boundaries, limits }: MeasuredDfa) {
    this.limits = limits;
    this.#shortest = shortestEndings(dfa, boundaries);
    this.#longest = limits.max === Infinity ? longestEndings(dfa, boundaries) : new Float64Array();
    this.#endings = limits.max === Infinity ? [] : allEndings(dfa, boundaries, limits.max);
  }

  /** The measure of an automaton, computed once. */
  static of(measured: MeasuredDfa): Measure {
    let measure = known.get(measured);
    if (measure === undefined) known.set(measured, (measure = new Measure(measured)));
    return measure;
  }

  /** The highest count that is distinguished; without a maximum, nothing changes from the minimum on. */
  get limit(): number {
    return this.limits.max === Infinity ? this.limits.min : this.limits.max;
  }

  /** Whether a text in a state, with a count of characters, can still end within the limits. */
  allows(state: number, count: number): boolean {
    const { min, max } = this.limits;
    if (max === Infinity) return (this.#longest[state] as number) >= min - count;
    return hasBit(this.#endings[state] as Uint32Array, Math.max(0, min - count), max - count);
  }

  /** The number of characters that a state with a loop may still take. */
  room(state: number, count: number): number {
    return this.limits.max - count - (this.#shortest[state] as number);
  }
}

function hasBit(bits: Uint32Array, from: number, to: number): boolean {
  for (let word = from >>> 5; word <= to >>> 5; word++) {
    let value = bits[word] ?? 0;
    if (word === from >>> 5) value &= -1 << (from & 31);
    if (word === to >>> 5 && (to & 31) !== 31) value &= (1 << ((to & 31) + 1)) - 1;
    if (value !== 0) return true;
  }
  return false;
}

/** The states inside characters, each after those that it leads to within the same character. */
function innerOrder(dfa: Dfa, boundaries: readonly boolean[]): readonly number[] {
  const order: number[] = [];
  const seen = new Uint8Array(dfa.size);
  const visit = (state: number): void => {
    if (seen[state] === 1 || boundaries[state] === true) return;
    seen[state] = 1;
    for (const target of dfa.targets(state)) visit(target);
    order.push(state);
  };
  for (let state = 0; state < dfa.size; state++) visit(state);
  return order;
}

function allEndings(dfa: Dfa, boundaries: readonly boolean[], max: number): readonly Uint32Array[] {
  const inner = innerOrder(dfa, boundaries);
  const between = boundaries.flatMap((isBoundary, state) => (isBoundary ? [state] : []));
  const targets = Array.from({ length: dfa.size }, (_, state) => dfa.targets(state));
  const endings = targets.map(() => new Uint32Array((max >>> 5) + 1));
  let fewer = new Uint8Array(dfa.size);
  for (let count = 0; count <= max; count++) {
    const now = new Uint8Array(dfa.size);
    const from = (state: number, able: Uint8Array): void => {
      checkTime();
      for (const target of targets[state] as readonly number[]) {
        if (able[target] === 1) {
          now[state] = 1;
          return;
        }
      }
    };
    for (const state of between) {
      if (count > 0) from(state, fewer);
      else if (dfa.accepts(state)) now[state] = 1;
    }
    for (const state of inner) from(state, now);
    for (let state = 0; state < dfa.size; state++)
      if (now[state] === 1) (endings[state] as Uint32Array)[count >>> 5] |= 1 << (count & 31);
    fewer = now;
  }
  return endings;
}

function shortestEndings(dfa: Dfa, boundaries: readonly boolean[]): Float64Array {
  const shortest = new Float64Array(dfa.size).fill(Infinity);
  for (let changed = true; changed;) {
    changed = false;
    for (let state = dfa.size - 1; state >= 0; state--) {
      const step = boundaries[state] === true ? 1 : 0;
      let best = dfa.accepts(state) && boundaries[state] === true ? 0 : Infinity;
      for (const target of dfa.targets(state)) best = Math.min(best, (shortest[target] as number) + step);
      if (best < (shortest[state] as number)) {
        shortest[state] = best;
        changed = true;
      }
    }
  }
  return shortest;
}

/**
 * The longest remaining text of each state; Infinity if a cycle can be reached, because every state of a trimmed
 * automaton leads to an end.
 */
function longestEndings(dfa: Dfa, boundaries: readonly boolean[]): Float64Array {
  const longest = new Float64Array(dfa.size).fill(-1);
  const onPath = new Uint8Array(dfa.size);
  const visit = (state: number): number => {
    if (onPath[state] === 1) return Infinity;
    if ((longest[state] as number) >= 0) return longest[state] as number;
    onPath[state] = 1;
    let best = 0;
    for (const target of dfa.targets(state))
      best = Math.max(best, visit(target) + (boundaries[state] === true ? 1 : 0));
    onPath[state] = 0;
    longest[state] = best;
    return best;
  };
  for (let state = 0; state < dfa.size; state++) visit(state);
  return longest;
}
