// A grammar that is ready to match texts.

import type { Automaton } from "./automaton.js";

/** A grammar with its automaton. */
export class CompiledGrammar {
  readonly automaton: Automaton;

  constructor(automaton: Automaton) {
    this.automaton = automaton;
  }

  /** Approximate memory of the grammar, in states. */
  get weight(): number {
    return this.automaton.network.states.length + SET_WEIGHT * this.automaton.size;
  }
}

/** Memory of an interned set with its edges, in states. */
const SET_WEIGHT = 10;
