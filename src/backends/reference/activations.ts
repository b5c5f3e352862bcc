// Activation functions, in double precision.

import type { Activation } from "../../graph/operation.js";

/** Constant of GELU's tanh approximation. */
const GELU_FACTOR = Math.sqrt(2 / Math.PI);
const GELU_CUBIC = 0.044715;

/** Limits and slope of gpt-oss's activation. */
const OAI_LIMIT = 7;
const OAI_SLOPE = 1.702;

/** The gated linear unit of each activation. */
export type ActivationTable = { readonly [Name in Activation]: (gate: number, up: number) => number };

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** The exact gated linear units. */
export const ACTIVATIONS: ActivationTable = {
  silu: (gate, up) => (gate / (1 + Math.exp(-gate))) * up,
  gelu: (gate, up) => 0.5 * gate * (1 + Math.tanh(GELU_FACTOR * gate * (1 + GELU_CUBIC * gate * gate))) * up,
  sigmoid: (gate, up) => sigmoid(gate) * up,
  relu: (gate, up) => Math.max(gate, 0) * up,
  identity: (gate, up) => gate * up,
  "swiglu-oai": (gate, up) => {
    const clamped = Math.min(gate, OAI_LIMIT);
    return clamped * sigmoid(OAI_SLOPE * clamped) * (Math.max(-OAI_LIMIT, Math.min(up, OAI_LIMIT)) + 1);
  },
};
