// What a step is made of on the device: launches of our kernels, and products that the vendor's library computes.

import type { RowSymbol } from "../../../graph/program.js";
import type { LaunchSpec, Place } from "./launch.js";

/** out[token][row] = Σ_k inputs[token][k] × weights[row][k], inputs and weights as halves, out as f32. */
export interface LibrarySpec {
  readonly label: string;
  readonly weights: Place;
  readonly inputs: Place;
  readonly out: Place;
  readonly rows: number;
  readonly width: number;
  readonly inputStride: number;
  readonly outStride: number;
  /** Which count of the step is the number of tokens. */
  readonly tokens: RowSymbol;
}

export type StepItem = LaunchSpec | LibrarySpec;

export function isLaunch(item: StepItem): item is LaunchSpec {
  return "file" in item;
}
