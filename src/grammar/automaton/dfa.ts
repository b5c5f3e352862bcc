// Deterministic automata over bytes, for combinations of regular languages: several patterns at once, all strings
// except some, multiples of a number. Bytes that no state distinguishes share a class. A missing edge is -1; automata
// are trimmed (every state is reachable and leads to an end) and minimal, so that equal languages have equal automata.

import { checkTime } from "../compile-time.js";
import { GRAMMAR_LIMITS, grammarLimit } from "../limits.js";
import { equivalentStates } from "./minimization.js";

/** The target of a missing edge: no accepted text continues this way. */
export const DEAD = -1;

/** A deterministic automaton over bytes. */
export class Dfa {
  /** The class of each byte. */
  readonly classes: Uint8Array;
  readonly classCount: number;
  /** Next states by state and class. State 0 is the start, if there is any state. */
  readonly #table: Int32Array;
  /** Bit 0 is set if a text may end in the state; the other bits are its label, see `label`. */
  readonly #marks: Uint8Array;

  constructor(classes: Uint8Array, classCount: number, table: Int32Array, marks: Uint8Array) {
    this.classes = classes;
    this.classCount = classCount;
    this.#table = table;
    this.#marks = marks;
  }

  get size(): number {
    return this.#marks.length;
  }

  /** Whether no text is accepted. */
  get empty(): boolean {
    return this.size === 0;
  }

  accepts(state: number): boolean {
    return ((this.#marks[state] as number) & 1) === 1;
  }

  /** The label that the state was given when the automaton was built. */
  label(state: number): number {
    return (this.#marks[state] as number) >>> 1;
  }

  target(state: number, byteClass: number): number {
    return this.#table[state * this.classCount + byteClass] as number;
  }

  /** All states that one byte leads to from a state. */
  targets(state: number): readonly number[] {
    const found = new Set<number>();
    for (let byteClass = 0; byteClass < this.classCount; byteClass++) {
      const target = this.target(state, byteClass);
      if (target !== DEAD) found.add(target);
    }
    return [...found];
  }

  /** Edges as triples: first byte, last byte, target. */
  edges(state: number): readonly number[] {
    const edges: number[] = [];
    for (let byte = 0; byte < 256; byte++) {
      const target = this.target(state, this.classes[byte] as number);
      if (target === DEAD) continue;
      const last = edges.length - 3;
      if (last >= 0 && edges[last + 1] === byte - 1 && edges[last + 2] === target) edges[last + 1] = byte;
      else edges.push(byte, byte, target);
    }
    return edges;
  }

  matches(text: Uint8Array): boolean {
    let state = this.empty ? DEAD : 0;
    for (const byte of text) {
      if (state === DEAD) return false;
      state = this.target(state, this.classes[byte] as number);
    }
    return state !== DEAD && this.accepts(state);
  }
}

/** The byte classes that several classifications distinguish together. */
export function commonClasses(classifications: readonly Uint8Array[]): {
  readonly classes: Uint8Array;
  readonly count: number;
  readonly examples: readonly number[];
} {
  const classes = new Uint8Array(256);
  const known = new Map<string, number>();
  const examples: number[] = [];
  for (let byte = 0; byte < 256; byte++) {
    const key = classifications.map((classification) => classification[byte]).join(" ");
    let found = known.get(key);
    if (found === undefined) {
      known.set(key, (found = known.size));
      examples.push(byte);
    }
    classes[byte] = found;
  }
  return { classes, count: known.size, examples };
}

/** What building an automaton needs: states as values, and their successors. */
interface DfaSource<Value> {
  readonly classes: Uint8Array;
  readonly classCount: number;
  readonly start: Value;
  /** Equal for values that are the same state. */
  key(value: Value): string | number;
  next(value: Value, byteClass: number): Value | undefined;
  accepts(value: Value): boolean;
  /** States with different labels, which are small numbers, are never merged. */
  label?(value: Value): number;
}

/** Builds the automaton of all reachable states, trimmed and minimal. Refuses to exceed the limit of states. */
export function buildDfa<Value>(
  source: DfaSource<Value>,
  place: string,
  maxStates: number = GRAMMAR_LIMITS.automatonStates,
): Dfa {
  const { classCount } = source;
  const indices = new Map<string | number, number>([[source.key(source.start), 0]]);
  const values: Value[] = [source.start];
  const rows: number[] = [];
  for (let state = 0; state < values.length; state++) {
    for (let byteClass = 0; byteClass < classCount; byteClass++) {
      checkTime();
      const value = source.next(values[state] as Value, byteClass);
      if (value === undefined) {
        rows.push(DEAD);
        continue;
      }
      const key = source.key(value);
      let index = indices.get(key);
      if (index === undefined) {
        indices.set(key, (index = values.length));
        values.push(value);
        if (values.length > maxStates) throw grammarLimit(place, "automatonStates", "an automaton of states");
      }
      rows.push(index);
    }
  }
  const marks = Uint8Array.from(
    values,
    (value) => (source.accepts(value) ? 1 : 0) | ((source.label?.(value) ?? 0) << 1),
  );
  return minimized(source.classes, classCount, Int32Array.from(rows), marks);
}

/** Merges equivalent states, and drops those that lead to no end. */
function minimized(classes: Uint8Array, classCount: number, table: Int32Array, marks: Uint8Array): Dfa {
  const { groups, count } = equivalentStates(classCount, table, marks);
  if (groups[0] === DEAD) return new Dfa(classes, classCount, new Int32Array(), new Uint8Array());
  const rows = new Int32Array(count * classCount).fill(DEAD);
  const ends = new Uint8Array(count);
  for (let state = 0; state < marks.length; state++) {
    const group = groups[state] as number;
    if (group === DEAD) continue;
    ends[group] = marks[state] as number;
    for (let byteClass = 0; byteClass < classCount; byteClass++) {
      const target = table[state * classCount + byteClass] as number;
      rows[group * classCount + byteClass] = target === DEAD ? DEAD : (groups[target] as number);
    }
  }
  return new Dfa(classes, classCount, rows, ends);
}

type Pair = readonly [number, number];

/** The texts that two automata accept by a rule: both, either, or the first only. */
export function combinedDfa(one: Dfa, other: Dfa, rule: "both" | "first only" | "either", place: string): Dfa {
  const { classes, count, examples } = commonClasses([one.classes, other.classes]);
  const step = (dfa: Dfa, state: number, byteClass: number): number =>
    state === DEAD ? DEAD : dfa.target(state, dfa.classes[examples[byteClass] as number] as number);
  const ends = (dfa: Dfa, state: number): boolean => state !== DEAD && dfa.accepts(state);
  return buildDfa<Pair>(
    {
      classes,
      classCount: count,
      start: [one.empty ? DEAD : 0, other.empty ? DEAD : 0],
      key: ([left, right]) => (left + 1) * (other.size + 1) + right + 1,
      next: ([left, right], byteClass) => {
        const pair: Pair = [step(one, left, byteClass), step(other, right, byteClass)];
        const dead =
          rule === "both"
            ? pair[0] === DEAD || pair[1] === DEAD
            : rule === "either"
              ? pair[0] === DEAD && pair[1] === DEAD
              : pair[0] === DEAD;
        return dead ? undefined : pair;
      },
      accepts: ([left, right]) => {
        if (rule === "both") return ends(one, left) && ends(other, right);
        return rule === "either" ? ends(one, left) || ends(other, right) : ends(one, left) && !ends(other, right);
      },
    },
    place,
  );
}
