// Activation functions, in double precision.

import type { Activation } from "../../graph/operation.js";

/** Constant of GELU's tanh approximation. */
const GELU_FACTOR = Math.sqrt(2 / Math.PI);
const GELU_CUBIC = 0.044715;

/** A function for each activation. */
export type ActivationTable = { readonly [Name in Activation]: (x: number) => number };

/** The exact activation functions. */
export const ACTIVATIONS: ActivationTable = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => 0.5 * x * (1 + Math.tanh(GELU_FACTOR * x * (1 + GELU_CUBIC * x * x))),
};
