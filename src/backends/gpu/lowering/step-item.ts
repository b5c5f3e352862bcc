// What a step is made of on the device: launches of our kernels, and matmuls that the BLAS library computes.

import type { RowSymbol } from "../../../graph/program.js";
import type { LaunchSpec, MemoryPlace } from "./launch.js";

/** out[token][row] = Σ_k inputs[token][k] × weights[row][k], inputs and weights as halves, out as f32. */
export interface BlasSpec {
  readonly label: string;
  readonly weights: MemoryPlace;
  readonly inputs: MemoryPlace;
  readonly out: MemoryPlace;
  readonly rows: number;
  readonly width: number;
  readonly inputStride: number;
  readonly outStride: number;
  /** Which count of the step is the number of tokens. */
  readonly tokens: RowSymbol;
}

export type StepItem = LaunchSpec | BlasSpec;

export function isLaunch(item: StepItem): item is LaunchSpec {
  return "file" in item;
}
