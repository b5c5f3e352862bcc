// Compares what two variants of a kernel wrote. In deterministic mode no bit may differ; otherwise sums may round
// differently, and a quantized value may be one more or less.

import { HALF_VALUES } from "../../../quant/half.js";
import type { LaunchResult } from "../lowering/launch.js";

/** Largest difference, as a share of the largest value: far above rounding, far below a wrong term. */
const TOLERANCES: Readonly<Record<"f32" | "f16" | "sums", number>> = {
  f32: 2 ** -11,
  // And sums that were rounded to one half or the next.
  f16: 2 ** -9,
  // Two quantized values of sixteen that are one more or less.
  sums: 2 ** -7,
};
/** Values that lie on the border of two quantized ones may take either. */
const QUANTIZED_TOLERANCE = 1;

/** Whether results agree; `exact`: in every bit. */
export function areSameResults(
  type: LaunchResult["type"],
  reference: Uint8Array,
  found: Uint8Array,
  exact: boolean,
): boolean {
  if (reference.byteLength !== found.byteLength) return false;
  if (exact) return Buffer.compare(reference, found) === 0;
  if (type === "i8") return areCloseBytes(reference, found);
  const widened = type === "f16" ? halves : floats;
  return areCloseFloats(widened(reference), widened(found), TOLERANCES[type]);
}

function areCloseFloats(reference: Float32Array, found: Float32Array, tolerance: number): boolean {
  let scale = 0;
  for (const value of reference) if (Number.isFinite(value)) scale = Math.max(scale, Math.abs(value));
  const most = scale * tolerance;
  return reference.every((value, index) => {
    // The same infinity, or NaN in both.
    if (Object.is(value, found[index])) return true;
    return Math.abs(value - found[index]) <= most;
  });
}

function areCloseBytes(reference: Uint8Array, found: Uint8Array): boolean {
  const left = new Int8Array(reference.buffer, reference.byteOffset, reference.byteLength);
  const right = new Int8Array(found.buffer, found.byteOffset, found.byteLength);
  return left.every((value, index) => Math.abs(value - right[index]) <= QUANTIZED_TOLERANCE);
}

/** The bytes as floats; a copy if they do not begin at a whole word. */
function floats(bytes: Uint8Array): Float32Array {
  const aligned = bytes.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? bytes : Uint8Array.from(bytes);
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / Float32Array.BYTES_PER_ELEMENT);
}

/** The halves that bytes are, as floats. */
function halves(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from(
    { length: bytes.byteLength / 2 },
    (_, index) => HALF_VALUES[view.getUint16(index * 2, true)],
  );
}
