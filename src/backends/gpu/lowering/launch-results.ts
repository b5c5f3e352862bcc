// What launches of matmuls and attention write: where variants of them have to agree.

import type { RowSymbol } from "../../../graph/program.js";
import type { ValuePlace } from "./context.js";
import type { LaunchResult, MemoryPlace } from "./launch.js";
import type { Matmul } from "./matmul.js";
import { FLOAT_BYTES, HALF_BYTES, type HalfPlace, type QuantizedPlace } from "./regions.js";

/** The rows that a launch of these matmuls writes; a gated one writes those of the first alone. */
export function matmulResults(matmuls: readonly Matmul[], gated: boolean): readonly LaunchResult[] {
  return (gated ? matmuls.slice(0, 1) : matmuls).map(({ out, outputs, rows }) =>
    floatResult({ ...out, rows }, outputs),
  );
}

/** The first `columns` columns of rows of floats. */
export function floatResult({ place, stride, rows }: Omit<ValuePlace, "width">, columns: number): LaunchResult {
  return { place, type: "f32", rows, rowBytes: columns * FLOAT_BYTES, strideBytes: stride * FLOAT_BYTES };
}

/** Halves with a scale for each row, `slots` rows a token; panels have as many bytes a row in another order. */
export function halfResults(
  { halves, rowScales, stride }: Pick<HalfPlace, "halves" | "rowScales" | "stride">,
  rows: RowSymbol,
  slots = 1,
): readonly LaunchResult[] {
  const rowBytes = slots * stride * HALF_BYTES;
  return [
    { place: halves, type: "f16", rows, rowBytes, strideBytes: rowBytes },
    floatResult({ place: rowScales, stride: slots, rows }, slots),
  ];
}

/** The rows that a launch writes: of all slots, one behind the other. */
export function slotResults(
  { place, stride, slotStride, rows }: ValuePlace,
  outputs: number,
  slots: number,
  quantized?: QuantizedPlace,
  sharedSlots = 0,
): readonly LaunchResult[] {
  if (quantized !== undefined) return quantizedResults(quantized, rows, (slots + sharedSlots) * outputs);
  const rowFloats = (slots - 1) * (slotStride ?? outputs) + outputs;
  return [{ place, type: "f32", rows, rowBytes: rowFloats * FLOAT_BYTES, strideBytes: stride * FLOAT_BYTES }];
}

/** `rows` rows of `width` columns as results of a launch. */
export function quantizedResults(
  { values, scales, sums }: QuantizedPlace,
  rows: RowSymbol,
  width: number,
): readonly LaunchResult[] {
  const result = (place: MemoryPlace, type: LaunchResult["type"], rowBytes: number): LaunchResult => ({
    place,
    type,
    rows,
    rowBytes,
    strideBytes: rowBytes,
  });
  return [
    result(values, "i8", width),
    result(scales, "f32", (width / 32) * FLOAT_BYTES),
    result(sums, "sums", (width / 16) * FLOAT_BYTES),
  ];
}
