// Runs a network over bytes with Earley's algorithm, interning its sets and caching its steps: a grammar without
// recursion becomes a deterministic automaton while it is used, and one with recursion shares repeated parts.

import { GrammarError } from "../../errors.js";
import { GRAMMAR_LIMITS } from "../limits.js";
import { EarleySet, type EarleyItem } from "./earley-set.js";
import { type Network, NO_STATE, ROOT_RULE, type State } from "./network.js";

/** If there are more interned sets than this, all are dropped; texts keep the ones they are in. */
const MAX_SETS = 20_000;
const LARGE_SET = 24;
/** More than any count; lengths from here on are unlimited. */
const COUNTS = 2 ** 21;
const MAX_STATES = GRAMMAR_LIMITS.networkStates + 1;

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
  readonly #interned = new Map<string, EarleySet>();
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
    const next = kernel.length === 0 ? null : this.#set(kernel);
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

  #set(items: EarleyItem[]): EarleySet {
    items.sort((a, b) => a.state - b.state || (a.origin?.id ?? -1) - (b.origin?.id ?? -1) || a.count - b.count);
    let key = "";
    const kernel: EarleyItem[] = [];
    let last: EarleyItem | undefined;
    for (const item of items) {
      if (last !== undefined && last.state === item.state && last.origin === item.origin && last.count === item.count)
        continue;
      key += `${item.state},${item.origin?.id ?? ""},${item.count};`;
      kernel.push((last = item));
    }
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
    const set = new EarleySet(this.#ids++, kernel);
    const { states } = this.network;
    const known = new Set<number | string>();
    const waiting: EarleyItem[] = [];
    const origins: (EarleySet | undefined)[] = [];
    const add = (state: number, origin: EarleySet | undefined, count: number): void => {
      let place = origins.indexOf(origin);
      if (place === -1) place = origins.push(origin) - 1;
      const key = (place * COUNTS + count) * MAX_STATES + state;
      if (known.has(key)) return;
      known.add(key);
      if (known.size > GRAMMAR_LIMITS.activeItems) throw tooAmbiguous();
      waiting.push({ state, origin, count });
    };
    for (const { state, origin, count } of kernel) add(state, origin, count);
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) {
      const { origin, count } = item;
      const state = states[item.state] as State;
      switch (state.kind) {
        case "bytes":
          set.scanning.push(item);
          break;
        case "measured":
          if (state.edges.length > 0) set.scanning.push(item);
          if (state.exit !== NO_STATE && count >= state.measure.limits.min) add(state.exit, origin, 0);
          break;
        case "split":
          for (const target of state.targets) add(target, origin, count);
          break;
        case "call": {
          const back: EarleyItem = { state: state.next, origin, count };
          const returns = set.returns.get(state.rule);
          if (returns === undefined) set.returns.set(state.rule, [back]);
          else returns.push(back);
          const { start, nullable } = this.network.rule(state.rule);
          add(start, set, 0);
          if (nullable) add(state.next, origin, count);
          break;
        }
        case "final":
          if (state.rule === ROOT_RULE && origin === undefined) set.accepting = true;
          // Empty texts of a rule that was called in this set are handled at the call.
          else if (origin !== set)
            for (const back of origin?.returns.get(state.rule) ?? []) add(back.state, back.origin, back.count);
          break;
        case "enter":
          add(state.next, origin, 0);
          break;
        case "loop":
          if (count < state.max) add(state.body, origin, count);
          if (count >= state.min) add(state.exit, origin, 0);
          break;
        case "again":
          add(state.loop, origin, Math.min(count + 1, state.limit));
          break;
        default:
          state satisfies never;
      }
    }
    this.work += known.size;
    return set;
  }
}

function tooAmbiguous(): GrammarError {
  const most = GRAMMAR_LIMITS.activeItems;
  return new GrammarError(
    "GRAMMAR_LIMIT",
    `[grammar] expected a grammar with up to ${most} rules active at one place, found more; make it less ambiguous`,
    {
      details: { limit: "activeItems", most },
    },
  );
}
