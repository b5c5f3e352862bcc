// Which characters lead a set back to itself, by their kinds: behind a quote of a JSON string nearly all do. A set inside
// a counted repetition comes back with one more on its count, as long as there is room.

import type { Automaton } from "./automaton.js";
import { KIND_BYTES, MULTIBYTE, MULTIBYTE_FORMS } from "./character-kinds.js";
import type { EarleySet, Item } from "./earley-set.js";
import type { State } from "./network.js";

/** How many more characters may lead back. */
export function loopRoom(automaton: Automaton, set: EarleySet): number {
  const [item, another] = set.kernel;
  if (item === undefined || another !== undefined) return Infinity;
  const state = automaton.network.states[item.state] as State;
  if (state.kind === "again") return state.max - item.count - 1;
  return state.kind === "measured" ? state.measure.room(state.index, item.count) : Infinity;
}

/** The kinds all of whose characters lead back. */
export function loopKinds(automaton: Automaton, set: EarleySet): number {
  if (set.loops !== undefined) return set.loops;
  let kinds = 0;
  for (const [kind, bytes] of KIND_BYTES) {
    if (bytes.every((byte) => isBack(automaton, set, automaton.step(set, automaton.classes[byte] as number)))) kinds |= kind;
  }
  // Where no letter leads back, no other does that is worth the search.
  if (kinds !== 0 && MULTIBYTE_FORMS.every((form) => leadsBack(automaton, set, set, form))) kinds |= MULTIBYTE;
  set.loops = kinds;
  return kinds;
}

function leadsBack(automaton: Automaton, to: EarleySet, from: EarleySet, form: readonly (readonly [number, number])[]): boolean {
  const [range, ...rest] = form;
  if (range === undefined) return isBack(automaton, to, from);
  let last = -1;
  for (let byte = range[0]; byte <= range[1]; byte++) {
    const byteClass = automaton.classes[byte] as number;
    if (byteClass === last) continue;
    last = byteClass;
    const next = automaton.step(from, byteClass);
    if (next === null || !leadsBack(automaton, to, next, rest)) return false;
  }
  return true;
}

function isBack(automaton: Automaton, set: EarleySet, next: EarleySet | null): boolean {
  if (next === set) return true;
  if (next === null || next.kernel.length !== 1 || set.kernel.length !== 1) return false;
  const [was, is] = [set.kernel[0] as Item, next.kernel[0] as Item];
  if (was.state !== is.state || was.origin !== is.origin || is.count !== was.count + 1) return false;
  const { kind } = automaton.network.states[is.state] as State;
  return kind === "again" || kind === "measured";
}
