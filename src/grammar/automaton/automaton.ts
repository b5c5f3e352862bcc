// Runs a network over bytes with Earley's algorithm, interning its sets and caching its steps: a grammar without
// recursion becomes a deterministic automaton while it is used, and one with recursion shares repeated parts.

import { EarleySet, type EarleyItem } from "./earley-set.js";
import { COUNTS, ItemList, STATES } from "./item-list.js";
import { type Network, NO_STATE, ROOT_RULE, type State } from "./network.js";

/** If there are more interned sets than this, all are dropped; texts keep the ones they are in. */
const MAX_SETS = 20_000;
const LARGE_SET = 24;
/** Sets whose number is below this are part of keys that are whole numbers, together with a count and a state. */
const NUMBERED_SETS = 2 ** 13;

/** The lazily built automaton of a grammar. */
export class Automaton {
  readonly network: Network;
  /** The class of each byte. */
  readonly classes: Uint8Array;
  readonly classCount: number;
  readonly start: EarleySet;
  /** Kinds of characters that counted repetitions take, by state and origin; see loops.ts. */
  readonly countedKinds = new Map<string, number>();
  /** Items processed so far; the cost of a mask is the difference. */
  work = 0;
  readonly #examples: readonly number[];
  readonly #interned = new Map<string | number, EarleySet>();
  /** The items of the set that is being made; kept, because most sets are small and made in a microsecond. */
  readonly #items = new ItemList();
  #ids = 0;

  constructor(network: Network) {
    this.network = network;
    const { classes, count, examples } = network.classes;
    this.classes = classes;
    this.classCount = count;
    this.#examples = examples;
    this.start = this.#made([{ state: network.rule(network.root).start, origin: undefined, count: 0 }]);
  }

  /** Number of interned sets. */
  get size(): number {
    return this.#interned.size;
  }

  /** The set after one byte of a class; null if no text continues like that. */
  step(set: EarleySet, byteClass: number): EarleySet | null {
    const known = set.next[byteClass];
    if (known !== undefined) return known;
    const kernel = set.scanning.length < LARGE_SET ? this.#scanned(set, byteClass) : this.#indexed(set, byteClass);
    const next = kernel.length === 0 ? null : this.setOf(kernel);
    set.next[byteClass] = next;
    return next;
  }

  /** The set after a sequence of bytes; null if no text continues like that. */
  walk(set: EarleySet, bytes: Uint8Array): EarleySet | null {
    let now: EarleySet | null = set;
    for (let at = 0; at < bytes.length && now !== null; at++)
      now = this.step(now, this.classes[bytes[at] as number] as number);
    return now;
  }

  #scanned(set: EarleySet, byteClass: number): EarleyItem[] {
    const byte = this.#examples[byteClass] as number;
    const kernel: EarleyItem[] = [];
    for (const item of set.scanning) {
      const { edges } = this.#scanningState(item);
      for (let at = 0; at < edges.length; at += 3) {
        if (byte < (edges[at] as number) || byte > (edges[at + 1] as number)) continue;
        const target = this.#target(item, edges[at + 2] as number);
        if (target !== undefined) kernel.push(target);
      }
    }
    this.work += set.scanning.length + 1;
    return kernel;
  }

  /** Indexes the items of a large set once, instead of processing all of them for each class. */
  #indexed(set: EarleySet, byteClass: number): EarleyItem[] {
    if (set.targets === undefined) {
      const targets: (EarleyItem[] | undefined)[] = (set.targets = []);
      for (const item of set.scanning) {
        const { edges } = this.#scanningState(item);
        for (let at = 0; at < edges.length; at += 3) {
          const target = this.#target(item, edges[at + 2] as number);
          if (target === undefined) continue;
          const last = this.classes[edges[at + 1] as number] as number;
          for (let found = this.classes[edges[at] as number] as number; found <= last; found++) {
            (targets[found] ??= []).push(target);
            this.work++;
          }
        }
      }
    }
    return set.targets[byteClass] ?? [];
  }

  #scanningState({ state }: EarleyItem): State & { readonly kind: "bytes" | "measured" } {
    return this.network.states[state] as State & { readonly kind: "bytes" | "measured" };
  }

  /** The item that an edge leads to; undefined if a measure does not allow it. */
  #target(item: EarleyItem, target: number): EarleyItem | undefined {
    const { origin, count } = item;
    const from = this.#scanningState(item);
    if (from.kind === "bytes") return { state: target, origin, count };
    const { measure, counts } = from;
    const { index } = this.network.states[target] as State & { readonly kind: "measured" };
    const now = counts ? count + 1 : count;
    if (now > measure.limits.max || !measure.allows(index, now)) return undefined;
    return { state: target, origin, count: Math.min(now, measure.limit) };
  }

  /** The interned set of these items, which are sorted in place. */
  setOf(items: EarleyItem[]): EarleySet {
    const kernel = items.length === 1 ? items : distinct(items);
    const key = kernelKey(kernel);
    const known = this.#interned.get(key);
    if (known !== undefined) return known;
    const made = this.#made(kernel);
    if (this.#interned.size >= MAX_SETS) {
      this.#interned.clear();
      this.countedKinds.clear();
    }
    this.#interned.set(key, made);
    return made;
  }

  /** Earley's completion and prediction. */
  #made(kernel: readonly EarleyItem[]): EarleySet {
    const set = new EarleySet(this.#ids++, kernel, this.classCount);
    const items = this.#items;
    items.clear();
    for (const { state, origin, count } of kernel) items.add(state, origin, count);
    for (let index = 0; index < items.length; index++) this.#complete(set, items.at(index));
    this.work += items.length;
    return set;
  }

  /** Adds the items that an item leads to without a byte. */
  #complete(set: EarleySet, item: EarleyItem): void {
    const items = this.#items;
    const { origin, count } = item;
    const state = this.network.states[item.state] as State;
    switch (state.kind) {
      case "bytes":
        set.scanning.push(item);
        break;
      case "measured":
        if (state.edges.length > 0) set.scanning.push(item);
        if (state.exit !== NO_STATE && count >= state.measure.limits.min) items.add(state.exit, origin, 0);
        break;
      case "split":
        for (const target of state.targets) items.add(target, origin, count);
        break;
      case "call": {
        set.addReturn(state.rule, { state: state.next, origin, count });
        const { start, nullable } = this.network.rule(state.rule);
        items.add(start, set, 0);
        if (nullable) items.add(state.next, origin, count);
        break;
      }
      case "final":
        if (state.rule === ROOT_RULE && origin === undefined) set.accepting = true;
        // Empty texts of a rule that was called in this set are handled at the call.
        else if (origin !== set)
          for (const back of origin?.returns?.get(state.rule) ?? []) items.add(back.state, back.origin, back.count);
        break;
      case "enter":
        items.add(state.next, origin, 0);
        break;
      case "loop":
        if (count < state.max) items.add(state.body, origin, count);
        if (count >= state.min) items.add(state.exit, origin, 0);
        break;
      case "again":
        items.add(state.loop, origin, Math.min(count + 1, state.limit));
        break;
      default:
        state satisfies never;
    }
  }
}

/** Sorts items, and drops duplicates. */
function distinct(items: EarleyItem[]): readonly EarleyItem[] {
  items.sort((a, b) => a.state - b.state || (a.origin?.id ?? -1) - (b.origin?.id ?? -1) || a.count - b.count);
  return items.filter((item, place) => {
    const last = items[place - 1];
    return last?.state !== item.state || last.origin !== item.origin || last.count !== item.count;
  });
}

/** The key of a kernel. That of a single item is a number if it fits, which is faster than a string. */
function kernelKey(kernel: readonly EarleyItem[]): string | number {
  if (kernel.length === 1) {
    const { state, origin, count } = kernel[0] as EarleyItem;
    const id = origin === undefined ? 0 : origin.id + 1;
    if (id < NUMBERED_SETS) return (id * COUNTS + count) * STATES + state;
  }
  let key = "";
  for (const { state, origin, count } of kernel) key += `${state},${origin?.id ?? ""},${count};`;
  return key;
}
