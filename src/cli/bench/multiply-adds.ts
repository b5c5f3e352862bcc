// The 8-bit multiply-adds of a prefill: every quantized matrix once per token that passes it, of experts only the chosen
// ones. The last layer continues with the output row alone. Matrices of floats and attention are computed in other units
// and not counted, so the share of the dot-product peak is a lower bound of what the cores did.

import type { ExecutionPlan } from "../../plan/execution-plan.js";

/** Multiply-adds of quantized weights in the prefill of a prompt of which one row is wanted; 0 if no matrix is quantized. */
export function prefillMultiplyAdds({ program, layers }: ExecutionPlan, promptTokens: number): number {
  const descriptors = new Map(
    layers.flatMap(({ weights }) => weights.map(({ id, tensor }) => [id, tensor?.descriptor])),
  );
  let multiplyAdds = 0;
  for (const operation of program.operations) {
    if (operation.kind !== "matmul" && operation.kind !== "grouped-matmul") continue;
    const descriptor = descriptors.get(operation.weight);
    if (descriptor === undefined || descriptor.layout.blockElements === 1) continue;
    const isRouted = operation.kind === "grouped-matmul" && operation.routing !== undefined;
    const share = isRouted ? operation.slots / (descriptor.shape.at(-1) ?? 1) : 1;
    const rows = program.values[operation.out].rows === "tokens" ? promptTokens : 1;
    multiplyAdds += descriptor.elements * share * rows;
  }
  return multiplyAdds;
}
