// The kinds of characters that a set takes any number of: nearly all inside a JSON string. From such a set, every text
// of these kinds leads to one of a few sets that take them as well; inside a counted repetition, to the same set with a
// higher count, as long as there is room.

import type { Automaton } from "./automaton.js";
import { ALL_KINDS, ASCII_KINDS, KIND_BYTES, MULTIBYTE, MULTIBYTE_FORMS, SMALL_LETTERS } from "./character-kinds.js";
import type { EarleySet, EarleyItem } from "./earley-set.js";
import type { State } from "./network.js";

/** Sets that are examined; patterns that may match anywhere in a text have a few. */
const MAX_FAMILY = 12;

/** Characters that a set takes again and again. */
export interface Loop {
  /** Kinds of characters of which any text may follow. */
  readonly kinds: number;
  /** The number of characters that may follow. */
  readonly room: number;
}

const NO_LOOP: Loop = { kinds: 0, room: 0 };
const FIRST_LETTER = "a".charCodeAt(0);
const LAST_LETTER = "z".charCodeAt(0);

/** Whether a set takes the letters a and z, as far as they are among some kinds; if not, its loop lacks these kinds. */
export function mayTake(automaton: Automaton, set: EarleySet, kinds: number): boolean {
  for (const letter of [FIRST_LETTER, LAST_LETTER])
    if ((kinds & (ASCII_KINDS[letter] as number)) !== 0 && !takes(automaton, set, letter)) return false;
  return true;
}

function takes(automaton: Automaton, set: EarleySet, byte: number): boolean {
  return automaton.step(set, automaton.classes[byte] as number) !== null;
}

/**
 * Whether a set with a loop takes no character of the loop's kinds once its room is used up: then every longer text of
 * these kinds is refused.
 */
export function isExact(automaton: Automaton, set: EarleySet, { kinds }: Loop): boolean {
  const counting =
    countedRoom(automaton, set) === Infinity ? automaton.step(set, automaton.classes[FIRST_LETTER] as number) : set;
  if (counting === null) return false;
  const room = countedRoom(automaton, counting);
  if (room === Infinity) return false;
  const item = counting.kernel[0] as EarleyItem;
  const full = automaton.setOf([{ ...item, count: item.count + room }]);
  for (let byte = 0; byte < 256; byte++) {
    const kind = byte < 0x80 ? (ASCII_KINDS[byte] as number) : MULTIBYTE;
    if ((kinds & kind) !== 0 && takes(automaton, full, byte)) return false;
  }
  return true;
}

/** The loop of a set, computed once. */
export function loopOf(automaton: Automaton, set: EarleySet): Loop {
  return (set.loop ??=
    countedRoom(automaton, set) === Infinity ? plainLoop(automaton, set) : countedLoop(automaton, set));
}

/** Characters that a counted repetition still takes; Infinity outside of one. */
function countedRoom(automaton: Automaton, { kernel: [item, another] }: EarleySet): number {
  if (item === undefined || another !== undefined) return Infinity;
  const state = automaton.network.states[item.state] as State;
  if (state.kind === "again") return state.max - item.count - 1;
  return state.kind === "measured" ? state.measure.room(state.index, item.count) : Infinity;
}

/** The loop of a counted repetition: all counts take the same kinds, as long as there is room. */
function countedLoop(automaton: Automaton, set: EarleySet): Loop {
  const room = countedRoom(automaton, set);
  if (room < 1) return NO_LOOP;
  const { state, origin } = set.kernel[0] as EarleyItem;
  const key = `${state} ${origin?.id ?? ""}`;
  let kinds = automaton.countedKinds.get(key);
  if (kinds === undefined) automaton.countedKinds.set(key, (kinds = new Family(automaton, set).kinds()));
  return { kinds, room };
}

function plainLoop(automaton: Automaton, set: EarleySet): Loop {
  const next = automaton.step(set, automaton.classes[FIRST_LETTER] as number);
  // The first character of a counted repetition leads into the counting state.
  if (next !== null && countedRoom(automaton, next) !== Infinity) {
    const { kinds, room } = loopOf(automaton, next);
    return { kinds: new Family(automaton, set).leadingTo(next, kinds), room: room + 1 };
  }
  return { kinds: new Family(automaton, set).kinds(), room: Infinity };
}

/** All kinds, small letters first, so that sets that take none are found early. */
const ORDERED = [...KIND_BYTES].sort(
  ([one], [other]) => Number((other & SMALL_LETTERS) !== 0) - Number((one & SMALL_LETTERS) !== 0),
);

class Family {
  readonly #automaton: Automaton;
  readonly #start: EarleySet;
  /** The sets of the family, and the kinds that lead to each. */
  #members = new Map<EarleySet, number>();

  constructor(automaton: Automaton, set: EarleySet) {
    this.#automaton = automaton;
    this.#start = set;
  }

  /** The largest set of kinds that stay within the family. Each round removes at least one kind. */
  kinds(): number {
    let kinds = this.#startKinds();
    for (let left = this.#round(kinds); left !== kinds; left = this.#round(kinds)) kinds = left;
    // A set that takes no ASCII kind is not worth the search.
    if (kinds === 0) return 0;
    const members = [...this.#members.keys()];
    const takesAll = members.every((member) => MULTIBYTE_FORMS.every((form) => this.#takesForm(member, member, form)));
    return takesAll ? kinds | MULTIBYTE : kinds;
  }

  /** The kinds of ASCII characters that may follow the set. */
  #startKinds(): number {
    let kinds = ALL_KINDS & ~MULTIBYTE;
    for (let byte = 0; byte < 0x80; byte++) {
      const kind = ASCII_KINDS[byte] as number;
      if ((kinds & kind) !== 0 && !takes(this.#automaton, this.#start, byte)) kinds &= ~kind;
    }
    return kinds;
  }

  /** Of the given kinds, those of which all characters lead to another set. */
  leadingTo(next: EarleySet, kinds: number): number {
    const { classes } = this.#automaton;
    let leading = 0;
    for (const [kind, bytes] of KIND_BYTES) {
      if (
        (kinds & kind) !== 0 &&
        bytes.every((byte) => this.#automaton.step(this.#start, classes[byte] as number) === next)
      )
        leading |= kind;
    }
    this.#members = new Map([[next, 0]]);
    if (
      leading !== 0 &&
      (kinds & MULTIBYTE) !== 0 &&
      MULTIBYTE_FORMS.every((form) => this.#takesForm(next, this.#start, form))
    )
      leading |= MULTIBYTE;
    return leading;
  }

  #round(kinds: number): number {
    this.#members = new Map([[this.#start, 0]]);
    for (const [member] of this.#members) {
      for (const [kind, bytes] of ORDERED) {
        if ((kinds & kind) === 0 || bytes.every((byte) => this.#takes(member, byte, kind))) continue;
        // Letters are kept if possible: the kinds that led to a set without letters are dropped instead.
        const led = this.#members.get(member) as number;
        const others = led & ~SMALL_LETTERS;
        return kinds & ~((SMALL_LETTERS & kind) !== 0 && others !== 0 ? others : kind);
      }
      if (this.#members.size > MAX_FAMILY) return 0;
    }
    return kinds;
  }

  #takes(member: EarleySet, byte: number, kind: number): boolean {
    const next = this.#automaton.step(member, this.#automaton.classes[byte] as number);
    if (next === null) return false;
    if (this.#isCounted(member, next)) return true;
    const led = this.#members.get(next);
    // A counting family has one member, whose room is known.
    if (
      led === undefined &&
      (countedRoom(this.#automaton, this.#start) !== Infinity || countedRoom(this.#automaton, next) !== Infinity)
    )
      return false;
    this.#members.set(next, (led ?? 0) | kind);
    return true;
  }

  #takesForm(member: EarleySet, from: EarleySet, form: readonly (readonly [number, number])[]): boolean {
    const [range, ...rest] = form;
    if (range === undefined) return this.#members.has(from) || this.#isCounted(member, from);
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

  /** Whether the next set is the same with the count raised by one. */
  #isCounted(set: EarleySet, next: EarleySet): boolean {
    if (next.kernel.length !== 1 || set.kernel.length !== 1) return false;
    const [was, is] = [set.kernel[0] as EarleyItem, next.kernel[0] as EarleyItem];
    if (was.state !== is.state || was.origin !== is.origin || is.count !== was.count + 1) return false;
    const { kind } = this.#automaton.network.states[is.state] as State;
    return kind === "again" || kind === "measured";
  }
}
