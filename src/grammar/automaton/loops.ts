// Which characters a set takes any number of, by their kinds: behind a quote of a JSON string nearly all. From such a set
// every text of these kinds leads to one of a few sets that take them too; inside a counted repetition, to the same one with
// more on its count, as long as there is room.

import type { Automaton } from "./automaton.js";
import { ALL_KINDS, KIND_BYTES, MULTIBYTE, MULTIBYTE_FORMS } from "./character-kinds.js";
import type { EarleySet, Item } from "./earley-set.js";
import type { State } from "./network.js";

/** Sets that are looked at; patterns that are found anywhere in a text have a few. */
const MAX_FAMILY = 12;

/** How many more characters may be taken so. */
export function loopRoom(automaton: Automaton, set: EarleySet): number {
  const [item, another] = set.kernel;
  if (item === undefined || another !== undefined) return Infinity;
  const state = automaton.network.states[item.state] as State;
  if (state.kind === "again") return state.max - item.count - 1;
  return state.kind === "measured" ? state.measure.room(state.index, item.count) : Infinity;
}

/** The kinds of which any text may follow. */
export function loopKinds(automaton: Automaton, set: EarleySet): number {
  return (set.loops ??= new Family(automaton, set).kinds());
}

class Family {
  readonly #automaton: Automaton;
  readonly #members: EarleySet[];

  constructor(automaton: Automaton, set: EarleySet) {
    this.#automaton = automaton;
    this.#members = [set];
  }

  kinds(): number {
    let kinds = ALL_KINDS;
    for (let place = 0; place < this.#members.length; place++) {
      const member = this.#members[place] as EarleySet;
      for (const [kind, bytes] of KIND_BYTES) {
        if ((kinds & kind) !== 0 && !this.#takes(member, bytes)) kinds &= ~kind;
      }
      // Where no kind of ASCII is taken, no other is that is worth the search.
      if ((kinds & ~MULTIBYTE) === 0) return 0;
      if ((kinds & MULTIBYTE) !== 0 && !MULTIBYTE_FORMS.every((form) => this.#takesForm(member, member, form))) kinds &= ~MULTIBYTE;
      if (this.#members.length > MAX_FAMILY) return 0;
    }
    return kinds;
  }

  #takes(member: EarleySet, bytes: readonly number[]): boolean {
    const { classes } = this.#automaton;
    return bytes.every((byte) => this.#reached(member, this.#automaton.step(member, classes[byte] as number)));
  }

  #takesForm(member: EarleySet, from: EarleySet, form: readonly (readonly [number, number])[]): boolean {
    const [range, ...rest] = form;
    if (range === undefined) return this.#reached(member, from);
    let last = -1;
    for (let byte = range[0]; byte <= range[1]; byte++) {
      const byteClass = this.#automaton.classes[byte] as number;
      if (byteClass === last) continue;
      last = byteClass;
      const next = this.#automaton.step(from, byteClass);
      if (next === null || !this.#takesForm(member, next, rest)) return false;
    }
    return true;
  }

  /** Notes where a character led. */
  #reached(member: EarleySet, next: EarleySet | null): boolean {
    if (next === null) return false;
    if (this.#isCounted(member, next) || this.#members.includes(next)) return true;
    // A family that counts has one member, whose room is known.
    if (loopRoom(this.#automaton, this.#members[0] as EarleySet) !== Infinity || loopRoom(this.#automaton, next) !== Infinity) return false;
    if (this.#members.length <= MAX_FAMILY) this.#members.push(next);
    return true;
  }

  /** Whether it is the same but for one more on its count. */
  #isCounted(set: EarleySet, next: EarleySet): boolean {
    if (next.kernel.length !== 1 || set.kernel.length !== 1) return false;
    const [was, is] = [set.kernel[0] as Item, next.kernel[0] as Item];
    if (was.state !== is.state || was.origin !== is.origin || is.count !== was.count + 1) return false;
    const { kind } = this.#automaton.network.states[is.state] as State;
    return kind === "again" || kind === "measured";
  }
}
