// A compiled grammar as a recursive transition network: states with edges over bytes, and calls of rules that are
// recursive or large. Counted repetitions keep their count beside the state instead of a state for each count.
// Invariant: from every state a text leads to the end of its rule (in measured states, as their guard allows).

import type { Measure } from "./measure.js";

/** Edges as triples: first byte, last byte, target state. */
type ByteEdges = Int32Array;

/** A state of a network. */
export type State =
  | { readonly kind: "bytes"; readonly edges: ByteEdges }
  | { readonly kind: "split"; readonly targets: readonly number[] }
  | { readonly kind: "call"; readonly rule: number; readonly next: number }
  /** The end of a rule: continues in its callers. */
  | { readonly kind: "final"; readonly rule: number }
  /** Sets the count to 0. */
  | { readonly kind: "enter"; readonly next: number }
  /** Repeats its body while the count is below `max`, and may leave from `min` on. */
  | { readonly kind: "loop"; readonly body: number; readonly exit: number; readonly min: number; readonly max: number }
  /**
   * The end of a loop's body: raises the count; without a maximum, only up to the minimum, from where on nothing
   * changes.
   */
  | { readonly kind: "again"; readonly loop: number; readonly limit: number; readonly max: number }
  /** A state of a measured automaton, entered only if its measure allows the count so far. */
  | {
      readonly kind: "measured";
      readonly edges: ByteEdges;
      readonly counts: boolean;
      readonly measure: Measure;
      readonly index: number;
      readonly exit: number;
    };

/** Where a rule starts in the network, and whether it matches the empty text. */
export interface Rule {
  readonly start: number;
  readonly nullable: boolean;
}

/**
 * The states of a grammar. Rules are compiled when a text first reaches them: a reply needs few rules of a large
 * schema.
 */
export interface Network {
  /** The states compiled so far. */
  readonly states: readonly State[];
  /** The start state of the root rule. */
  readonly root: number;
  /** The class of each byte; bytes that no state distinguishes, now or later, share one. */
  readonly classes: ByteClasses;
  rule(index: number): Rule;
}

/** A partition of the 256 byte values: bytes of one class have the same transitions in every state. */
export interface ByteClasses {
  readonly classes: Uint8Array;
  readonly count: number;
  /** A byte of each class. */
  readonly examples: readonly number[];
}

/** Stands for a state from which no text can be completed. */
export const NO_STATE = -1;
/** The final state of rule 0. */
export const ROOT_RULE = 0;
