// One matmul of a launch, and the arguments that the GEMV and GEMM kernels have in common.

import type { Activation, MatmulOperation } from "../../../graph/operation.js";
import type { RowSymbol } from "../../../graph/program.js";
import type { ArgumentValue } from "../kernels/argument-layout.js";
import type { Defines } from "../kernels/kernel-source.js";
import { activationDefines, softCapDefines } from "./attributes.js";
import type { MemoryPlace } from "./launch.js";
import type { LoweringContext, ValuePlace } from "./context.js";

/** Matmuls of one input that a launch computes at most. */
export const MAX_LAUNCHED = { gemv: 4, gemm: 3 } as const;

export interface Matmul {
  readonly type: number;
  readonly biasType: number | undefined;
  readonly weight: MemoryPlace | number;
  readonly bias: MemoryPlace | number;
  readonly factor: MemoryPlace | number;
  readonly width: number;
  readonly outputs: number;
  readonly rows: RowSymbol;
  readonly out: ValuePlace;
  /** Logit soft-cap, applied before the residual is added. */
  readonly softCap: number | undefined;
  /** A value that is added to the result. */
  readonly residual?: ValuePlace;
}

export interface MatmulTarget {
  readonly out: ValuePlace;
  readonly residual?: ValuePlace;
}

export function matmulOf(
  context: LoweringContext,
  { weight, bias, scale, softCap, input }: MatmulOperation,
  { out, residual }: MatmulTarget,
): Matmul {
  const { shape, elements } = context.options.weights[weight];
  return {
    type: context.typeOf(weight),
    biasType: bias === undefined ? undefined : context.typeOf(bias),
    weight: context.weight(weight),
    bias: context.weight(bias),
    factor: context.weight(scale),
    softCap,
    width: shape[0],
    outputs: elements / shape[0],
    rows: context.values[input].rows,
    out,
    ...(residual === undefined ? {} : { residual }),
  };
}

/** What the attributes of matmuls that one launch computes are compiled to. */
export function matmulDefines([first]: readonly Matmul[], gated: Activation | undefined): Defines {
  return { ...softCapDefines(first.softCap), ...(gated === undefined ? {} : activationDefines(gated)) };
}

/** Arguments of matmuls for a kernel that computes up to `most`; members of absent ones are zero. */
export function matmulArguments(
  matmuls: readonly Matmul[],
  most: number,
): Readonly<Record<string, ArgumentValue | MemoryPlace>> {
  const values: Record<string, ArgumentValue | MemoryPlace> = {};
  for (let index = 0; index < most; index++) {
    const matmul = matmuls.at(index);
    values[`weights${index}`] = matmul?.weight ?? 0;
    values[`out${index}`] = matmul?.out.place ?? 0;
    values[`bias${index}`] = matmul?.bias ?? 0;
    values[`factor${index}`] = matmul?.factor ?? 0;
    values[`rows${index}`] = matmul?.outputs ?? 0;
    values[`stride${index}`] = matmul?.out.stride ?? 0;
  }
  const residual = matmuls[0].residual;
  return { ...values, residual: residual?.place ?? 0, residual_stride: residual?.stride ?? 0 };
}

/** Neighbours that one launch can compute: few enough, with biases of one type and the same soft-cap. */
export function launchable(matmuls: readonly Matmul[], most: number): readonly (readonly Matmul[])[] {
  const launches: Matmul[][] = [];
  for (const matmul of matmuls) {
    const last = launches.at(-1);
    const fits =
      last !== undefined &&
      last.length < most &&
      last.every(({ biasType, softCap }) => softCap === matmul.softCap && agree(biasType, matmul.biasType));
    if (fits) last.push(matmul);
    else launches.push([matmul]);
  }
  return launches;
}

function agree(left: number | undefined, right: number | undefined): boolean {
  return left === undefined || right === undefined || left === right;
}
