// What launches of a plan need to run: a stream, and addresses of the program's weights and of the memory of its steps.

import type { StreamHandle } from "../drivers/shared/driver.js";
import type { MemoryPlace } from "../lowering/launch.js";
import type { BoundWeights } from "./bound-weights.js";
import type { StepMemory } from "./step-memory.js";
import type { LaunchRunner } from "./step-plan.js";
import type { StepPlans } from "./step-plans.js";

/** A runner for the steps of one program. */
export function launchRunner(
  bound: BoundWeights,
  { blas, check }: StepPlans,
  stream: StreamHandle,
  memory: StepMemory,
): LaunchRunner {
  return {
    stream,
    blas,
    check,
    addressOf: (place: MemoryPlace) =>
      place.space === "weight" ? bound.tensor(place.weight).address : memory.address(place),
    knows: (weights) => bound.knows(weights),
    bring: (weights) => bound.bring(weights, stream),
  };
}
