// A compiled grammar as a recursive transition network: states with edges over bytes, and calls where one rule needs
// another that is recursive or large. Counted repetitions keep their count beside the state instead of a state per count.
// Invariant: from every state there is a text that leads to the end of its rule (measured states: as their guard says).

import type { Measure } from "./measure.js";

/** Edges as triples: first byte, last byte, target state. */
export type ByteEdges = Int32Array;

export type State =
  | { readonly kind: "bytes"; readonly edges: ByteEdges }
  | { readonly kind: "split"; readonly targets: readonly number[] }
  | { readonly kind: "call"; readonly rule: number; readonly next: number }
  /** The end of a rule: goes back to the callers. */
  | { readonly kind: "final"; readonly rule: number }
  /** Sets the count to 0. */
  | { readonly kind: "enter"; readonly next: number }
  /** Runs its body again while the count is below `max`, leaves from `min` on. */
  | { readonly kind: "loop"; readonly body: number; readonly exit: number; readonly min: number; readonly max: number }
  /** The end of a loop's body: counts one; without a maximum no further than the minimum, from where on nothing changes. */
  | { readonly kind: "again"; readonly loop: number; readonly limit: number; readonly max: number }
  /** A state of a measured automaton: entered only if its measure allows it with the count so far. */
  | {
      readonly kind: "measured";
      readonly edges: ByteEdges;
      readonly counts: boolean;
      readonly measure: Measure;
      readonly index: number;
      readonly exit: number;
    };

export interface Rule {
  readonly start: number;
  readonly nullable: boolean;
}

/** Rules are compiled when a text first comes to them: of a large schema an answer needs few. */
export interface Network {
  /** Those that are there so far. */
  readonly states: readonly State[];
  /** The rule of whole texts. */
  readonly root: number;
  /** Of each byte: bytes that no state tells apart, now or later, share a class. */
  readonly classes: ByteClasses;
  rule(index: number): Rule;
}

export interface ByteClasses {
  readonly classes: Uint8Array;
  readonly count: number;
  /** A byte of each class. */
  readonly examples: readonly number[];
}

export const NO_STATE = -1;
/** The final state of rule 0. */
export const ROOT_RULE = 0;
