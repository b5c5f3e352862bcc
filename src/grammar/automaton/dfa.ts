// Deterministic automata over bytes, for what regular languages are combined by: several patterns at once, all strings
// but some, numbers that are multiples. Bytes that no state tells apart share a class. A missing edge is -1; automata are
// trimmed (every state is reached and leads to an end) and minimal, so that equal languages look alike.

import { checkTime } from "../compile-time.js";
import { GRAMMAR_LIMITS, grammarLimit } from "../limits.js";
import { equivalentStates } from "./minimization.js";

export const DEAD = -1;

export class Dfa {
  /** Of each byte. */
  readonly classes: Uint8Array;
  readonly classCount: number;
  /** By state and class. State 0 is the start, if there is any state. */
  readonly #table: Int32Array;
  /** 1 where a text may end, and what else states were told apart by: see `label`. */
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

  /** What the state was told apart by when the automaton was made. */
  label(state: number): number {
    return (this.#marks[state] as number) >>> 1;
  }

  target(state: number, byteClass: number): number {
    return this.#table[state * this.classCount + byteClass] as number;
  }

  /** All states that one byte leads to. */
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

/** The classes of bytes that a number of classifications tell apart together. */
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

/** What is needed to make an automaton: the state behind each state and class, found while it is walked. */
export interface DfaSource<Value> {
  readonly classes: Uint8Array;
  readonly classCount: number;
  readonly start: Value;
  /** The same for values that mean the same state. */
  key(value: Value): string | number;
  next(value: Value, byteClass: number): Value | undefined;
  accepts(value: Value): boolean;
  /** States with different labels, small numbers, are never made one. */
  label?(value: Value): number;
}

/** Walks all states that can be reached; trimmed and minimal. Refuses what comes to too many states. */
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

/** One state for all that cannot be told apart, without those that lead to no end. */
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

/** Texts of two automata, as a rule says which of them end: both, one of them, the first alone. */
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
