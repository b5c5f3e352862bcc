// Finds the equivalent states of a deterministic automaton, with Hopcroft's algorithm over the states that lead to an
// end. It works on the predecessors of a group of states, and continues with the smaller half of each group that it
// splits.

import { checkTime } from "../compile-time.js";

const DEAD = -1;

interface Equivalence {
  /** The group of each state, or -1 if no text leads from it to an end. The first state's group is 0. */
  readonly groups: Int32Array;
  readonly count: number;
}

/** `table` has the next state by state and class, or -1; `marks` distinguish states, and are odd if a text may end. */
export function equivalentStates(classCount: number, table: Int32Array, marks: Uint8Array): Equivalence {
  const sources = new Sources(classCount, table, marks.length);
  const alive = aliveStates(sources, classCount, marks);
  const partition = new Partition(alive, marks);
  const waiting: number[] = [...partition.blocks.keys()];
  const isWaiting = new Set(waiting);
  for (let splitter = waiting.pop(); splitter !== undefined; splitter = waiting.pop()) {
    isWaiting.delete(splitter);
    // A copy, because the group may split itself.
    const members = [...(partition.blocks[splitter] as readonly number[])];
    for (let byteClass = 0; byteClass < classCount; byteClass++) {
      const found: number[] = [];
      for (const member of members) {
        checkTime();
        for (
          let at = sources.start(member, byteClass);
          at < sources.start(member, byteClass) + sources.count(member, byteClass);
          at++
        ) {
          const source = sources.list[at] as number;
          if (alive[source] === 1) found.push(source);
        }
      }
      if (found.length === 0) continue;
      for (const [block, split] of partition.split(found)) {
        const smaller =
          (partition.blocks[block] as readonly number[]).length < (partition.blocks[split] as readonly number[]).length
            ? block
            : split;
        const next = isWaiting.has(block) ? split : smaller;
        isWaiting.add(next);
        waiting.push(next);
      }
    }
  }
  return partition.numbered();
}

/** The predecessors of states, by class. */
class Sources {
  readonly list: Int32Array;
  readonly #starts: Int32Array;
  readonly #classCount: number;

  constructor(classCount: number, table: Int32Array, size: number) {
    this.#classCount = classCount;
    this.#starts = new Int32Array(size * classCount + 1);
    for (let at = 0; at < table.length; at++) {
      const target = table[at] as number;
      if (target !== DEAD) this.#starts[target * classCount + (at % classCount) + 1]++;
    }
    for (let at = 1; at < this.#starts.length; at++) this.#starts[at] += this.#starts[at - 1] as number;
    const filled = this.#starts.slice();
    this.list = new Int32Array(this.#starts.at(-1) as number);
    for (let at = 0; at < table.length; at++) {
      const target = table[at] as number;
      if (target === DEAD) continue;
      const place = target * classCount + (at % classCount);
      this.list[filled[place] as number] = Math.floor(at / classCount);
      filled[place]++;
    }
  }

  start(state: number, byteClass: number): number {
    return this.#starts[state * this.#classCount + byteClass] as number;
  }

  count(state: number, byteClass: number): number {
    return (this.#starts[state * this.#classCount + byteClass + 1] as number) - this.start(state, byteClass);
  }
}

function aliveStates(sources: Sources, classCount: number, marks: Uint8Array): Uint8Array {
  const alive = marks.map((mark) => mark & 1);
  const waiting = [...alive.keys()].filter((state) => alive[state] === 1);
  for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
    const from = sources.start(state, 0);
    const to = sources.start(state, classCount - 1) + sources.count(state, classCount - 1);
    for (let at = from; at < to; at++) {
      const source = sources.list[at] as number;
      if (alive[source] === 1) continue;
      alive[source] = 1;
      waiting.push(source);
    }
  }
  return alive;
}

class Partition {
  /** The states of each group. */
  readonly blocks: number[][] = [];
  readonly #blockOf: Int32Array;

  constructor(alive: Uint8Array, marks: Uint8Array) {
    this.#blockOf = new Int32Array(marks.length).fill(DEAD);
    const byMark = new Map<number, number>();
    for (let state = 0; state < marks.length; state++) {
      if (alive[state] !== 1) continue;
      let block = byMark.get(marks[state] as number);
      if (block === undefined) byMark.set(marks[state] as number, (block = this.blocks.push([]) - 1));
      this.#put(state, block);
    }
  }

  /**
   * Splits every group that contains some of the states and others as well; returns pairs of the group and the new one.
   */
  split(states: readonly number[]): readonly (readonly [number, number])[] {
    const chosen = new Map<number, Set<number>>();
    for (const state of states) {
      const block = this.#blockOf[state] as number;
      const known = chosen.get(block);
      if (known === undefined) chosen.set(block, new Set([state]));
      else known.add(state);
    }
    const pairs: (readonly [number, number])[] = [];
    for (const [block, inside] of chosen) {
      const members = this.blocks[block] as number[];
      if (inside.size === members.length) continue;
      const split = this.blocks.push([]) - 1;
      this.blocks[block] = members.filter((state) => !inside.has(state));
      for (const state of inside) this.#put(state, split);
      pairs.push([block, split]);
    }
    return pairs;
  }

  /** Groups numbered in the order of their first states. */
  numbered(): Equivalence {
    const numbers = new Map<number, number>();
    const groups = this.#blockOf.map((block) => {
      if (block === DEAD) return DEAD;
      let number = numbers.get(block);
      if (number === undefined) numbers.set(block, (number = numbers.size));
      return number;
    });
    return { groups, count: numbers.size };
  }

  #put(state: number, block: number): void {
    (this.blocks[block] as number[]).push(state);
    this.#blockOf[state] = block;
  }
}
