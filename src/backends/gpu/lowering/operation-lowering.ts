// What the backend knows of one kind of operation: whether its kernels can compute it, and its launches. The files that
// lower operations export an entry for each, and operation-table.ts joins them.

import type { OperationKind, OperationOf } from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import type { LoweringContext } from "./context.js";
import type { HandedInput, SlotInput } from "./inputs.js";
import type { MatmulLowering } from "./matmul-groups.js";
import { isPlain } from "./matmul-selection.js";
import type { StepItem } from "./step-item.js";

/** Where an operation stands that is a group of its own. */
export interface OperationSite {
  /** Of its group in the fused program. */
  readonly groupIndex: number;
  /** Lowers the matmuls of the same step. */
  readonly matmuls: MatmulLowering;
  /** Where the next group wants the result, if that one is its only reader and this operation can leave it there. */
  readonly wanted: HandedInput | undefined;
  /** The input of a matmul of slots, if the group before has left it. */
  readonly slots: SlotInput | undefined;
}

export interface OperationLowering<Kind extends OperationKind> {
  /** Asked when a plan is built, with the operation's weights, which have a layout on the device. Absent: always. */
  readonly supports?: (operation: OperationOf<Kind>, weights: readonly TensorDescriptor[]) => Support;
  readonly lower: (context: LoweringContext, operation: OperationOf<Kind>, site: OperationSite) => readonly StepItem[];
}

/** An entry for each of these kinds. */
export type OperationLowerings<Kind extends OperationKind> = { readonly [Each in Kind]: OperationLowering<Each> };

/** The entries of some kinds, for `satisfies`. */
export type SomeOperationLowerings = Partial<OperationLowerings<OperationKind>>;

/** Support for an optional weight that kernels read as f32 only; `otherwise` if it is absent or F32. */
export function supportsFloats(what: string, weight: TensorDescriptor | undefined, otherwise: Support): Support {
  return weight === undefined || weight.layout.name === "F32"
    ? otherwise
    : { reason: `${weight.name}: ${what} of ${weight.layout.name} are not read here, only F32` };
}

/** Support for vectors that kernels read element by element: all of these weights. */
export function supportsPlain(what: string, weights: readonly TensorDescriptor[]): Support {
  const other = weights.find((weight) => !isPlain(weight));
  return other === undefined || { reason: `${what} of ${other.layout.name} is not read element by element` };
}
