// What is known about a tensor before any of its bytes are read. Shapes are in GGUF order: the first dimension is the
// row length (contiguous and quantized), so the weight of a matmul is [inputs, outputs].

import type { BlockLayout } from "../quant/layout.js";

/** The dimensions of a tensor in GGUF order: the first is the row length. */
export type Shape = readonly number[];

/** A tensor's name, block type, shape and size. */
export interface TensorDescriptor {
  readonly name: string;
  readonly layout: BlockLayout;
  readonly shape: Shape;
  readonly elements: number;
  readonly sizeBytes: number;
  /** Whether a device leaves it in host memory, because it is large and only single rows of it are read. */
  readonly onHost?: boolean;
}

/** The number of elements in a row: the first dimension. */
export function rowLength(descriptor: TensorDescriptor): number {
  return descriptor.shape[0] ?? 0;
}

/** Compares shapes without trailing dimensions of 1: a bias may be written [n] or [n, 1]. */
export function sameShape(left: Shape, right: Shape): boolean {
  const rank = Math.max(left.length, right.length);
  for (let axis = 0; axis < rank; axis++) {
    if ((left[axis] ?? 1) !== (right[axis] ?? 1)) return false;
  }
  return true;
}

/** A shape as text: `[2048, 512]`. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}
