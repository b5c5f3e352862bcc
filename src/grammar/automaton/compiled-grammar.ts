// A grammar that is ready to be followed.

import type { Automaton } from "./automaton.js";

export class CompiledGrammar {
  readonly automaton: Automaton;

  constructor(automaton: Automaton) {
    this.automaton = automaton;
  }

  /** About what it holds in memory, in states. */
  get weight(): number {
    return this.automaton.network.states.length + SET_WEIGHT * this.automaton.size;
  }
}

/** An interned set with its edges takes as much as so many states. */
const SET_WEIGHT = 10;
