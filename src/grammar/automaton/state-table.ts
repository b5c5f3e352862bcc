// The states of a network while it is being built. Equal states are made once, so that parts of a grammar that continue
// alike are the same states.

import { checkTime } from "../compile-time.js";
import { grammarLimit } from "../limits.js";
import { NO_STATE, type State } from "./network.js";

/** More than any state, to make one key of two states. */
const KEY_FACTOR = 2 ** 26;

/** The states made so far; their index is their name. */
export class StateTable {
  readonly states: State[] = [];
  readonly #place: string;
  readonly #maxStates: number;
  /** States by what they are. Most have one edge or two targets, and keys that are numbers, which are faster. */
  readonly #interned = new Map<string, number>();
  readonly #single = new Map<number, number>();
  readonly #pairs = new Map<number, number>();

  constructor(place: string, maxStates: number) {
    this.#place = place;
    this.#maxStates = maxStates;
  }

  /** Adds a state, even if there is an equal one. Refuses to exceed the limit of states. */
  add(state: State): number {
    checkTime();
    if (this.states.length >= this.#maxStates) throw grammarLimit(this.#place, "networkStates", "a grammar of states");
    return this.states.push(state) - 1;
  }

  /** The state with these edges, which are triples of first byte, last byte and target. */
  bytes(edges: readonly number[]): number {
    if (edges.length === 3) return this.byte(edges[0] as number, edges[1] as number, edges[2] as number);
    const key = edges.join(" ");
    let state = this.#interned.get(key);
    if (state === undefined)
      this.#interned.set(key, (state = this.add({ kind: "bytes", edges: Int32Array.from(edges) })));
    return state;
  }

  /** The state with one edge. */
  byte(from: number, to: number, next: number): number {
    const key = (next * 256 + from) * 256 + to;
    let state = this.#single.get(key);
    if (state === undefined)
      this.#single.set(key, (state = this.add({ kind: "bytes", edges: Int32Array.of(from, to, next) })));
    return state;
  }

  /** The state that reads some bytes and leads to another. */
  text(bytes: Uint8Array, next: number): number {
    let state = next;
    for (let place = bytes.length - 1; place >= 0; place--) {
      const byte = bytes[place] as number;
      state = this.byte(byte, byte, state);
    }
    return state;
  }

  /** The state that is any of some states, those that are `NO_STATE` left out. */
  split(targets: readonly number[]): number {
    if (targets.length === 2) return this.either(targets[0] as number, targets[1] as number);
    const distinct = [...new Set(targets.filter((target) => target !== NO_STATE))].sort((a, b) => a - b);
    if (distinct.length <= 1) return distinct[0] ?? NO_STATE;
    if (distinct.length === 2) return this.either(distinct[0] as number, distinct[1] as number);
    const key = `split ${distinct.join(" ")}`;
    let state = this.#interned.get(key);
    if (state === undefined) this.#interned.set(key, (state = this.add({ kind: "split", targets: distinct })));
    return state;
  }

  /** The state that is either of two states. */
  either(one: number, other: number): number {
    if (one === other || other === NO_STATE) return one;
    if (one === NO_STATE) return other;
    const [first, second] = one < other ? [one, other] : [other, one];
    const key = first * KEY_FACTOR + second;
    let state = this.#pairs.get(key);
    if (state === undefined) this.#pairs.set(key, (state = this.add({ kind: "split", targets: [first, second] })));
    return state;
  }
}
