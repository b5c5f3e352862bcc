// One product of a launch, and the arguments that the three files of products have in common.

import type { Activation, MatmulOperation, ValueId } from "../../../graph/operation.js";
import type { RowSymbol } from "../../../graph/program.js";
import type { ArgumentValue } from "../kernels/argument-layout.js";
import type { Defines } from "../kernels/kernel-source.js";
import { activationDefines, softCapDefines } from "./attributes.js";
import type { Place } from "./launch.js";
import type { LoweringContext, MatrixPlace } from "./context.js";

const MOST_PRODUCTS = 3;

export interface Product {
  readonly type: number;
  readonly biasType: number | undefined;
  readonly weight: Place | number;
  readonly bias: Place | number;
  readonly factor: Place | number;
  readonly width: number;
  readonly outputs: number;
  readonly rows: RowSymbol;
  readonly out: MatrixPlace;
  /** Logit soft-cap, applied before the residual is added. */
  readonly softCap: number | undefined;
  /** Added to the result. */
  readonly residual?: MatrixPlace;
}

export interface ProductTarget {
  readonly out: MatrixPlace;
  readonly residual?: ValueId;
}

export function productOf(
  context: LoweringContext,
  { weight, bias, scale, softCap, input }: MatmulOperation,
  { out, residual }: ProductTarget,
): Product {
  const { shape, elements } = context.facts.weights[weight];
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
    ...(residual === undefined ? {} : { residual: context.matrix(residual) }),
  };
}

/** What the attributes of matmuls that one launch computes are compiled to. */
export function productDefines([first]: readonly Product[], gated: Activation | undefined): Defines {
  return { ...softCapDefines(first.softCap), ...(gated === undefined ? {} : activationDefines(gated)) };
}

/** Members for products that are not there are zero. */
export function productArguments(products: readonly Product[]): Readonly<Record<string, ArgumentValue | Place>> {
  const values: Record<string, ArgumentValue | Place> = {};
  for (let index = 0; index < MOST_PRODUCTS; index++) {
    const product = products.at(index);
    values[`weights${index}`] = product?.weight ?? 0;
    values[`out${index}`] = product?.out.place ?? 0;
    values[`bias${index}`] = product?.bias ?? 0;
    values[`factor${index}`] = product?.factor ?? 0;
    values[`rows${index}`] = product?.outputs ?? 0;
    values[`stride${index}`] = product?.out.stride ?? 0;
  }
  const residual = products[0].residual;
  return { ...values, residual: residual?.place ?? 0, residual_stride: residual?.stride ?? 0 };
}

/** Neighbours that one launch can compute: few enough, with biases of one type and the same soft-cap. */
export function launchable(products: readonly Product[]): readonly (readonly Product[])[] {
  const launches: Product[][] = [];
  for (const product of products) {
    const last = launches.at(-1);
    const fits =
      last !== undefined &&
      last.length < MOST_PRODUCTS &&
      last.every(({ biasType, softCap }) => softCap === product.softCap && agree(biasType, product.biasType));
    if (fits) last.push(product);
    else launches.push([product]);
  }
  return launches;
}

function agree(left: number | undefined, right: number | undefined): boolean {
  return left === undefined || right === undefined || left === right;
}
