// The interface of the reference backend's kernels: an operation, and the values, weights and cache of the step.

import type { OperationKind, OperationOf, WeightId } from "../../graph/operation.js";
import type { Program, RowSymbol } from "../../graph/program.js";
import type { StepInput } from "../contract.js";
import type { ActivationTable } from "./activations.js";
import type { KvStorage } from "./kv-cache.js";
import type { Matrix } from "./matrix.js";
import type { ReferenceTensor } from "./tensor.js";

/** What kernels can access during one step. */
export interface StepContext {
  readonly program: Program;
  readonly step: StepInput;
  /** The rows that each kind of selection keeps. */
  readonly selections: Readonly<Record<Exclude<RowSymbol, "tokens">, readonly number[]>>;
  readonly cache: KvStorage;
  readonly activations: ActivationTable;
  readonly value: (id: number) => Matrix;
  readonly weight: (id: WeightId) => ReferenceTensor;
  readonly optional: (id: WeightId | undefined) => Float32Array | undefined;
}

/** Computes one kind of operation. */
export type Kernel<Kind extends OperationKind> = (operation: OperationOf<Kind>, context: StepContext) => void;

/** A kernel for each of these kinds of operations. */
export type KernelTable<Kind extends OperationKind> = { readonly [Each in Kind]: Kernel<Each> };

/** The kernels of some operations, for `satisfies`. */
export type SomeKernels = Partial<KernelTable<OperationKind>>;
