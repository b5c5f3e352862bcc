// Compares what two variants of a kernel wrote. Parameters that leave the order of sums alone must not change a bit; the
// others may change the last bits of sums, and a quantized value by one.

import type { LaunchResult } from "../lowering/launch.js";

/** Largest difference of reordered sums, as a share of the largest value: far above rounding, far below a wrong term. */
const TOLERANCE = 2 ** -11;
/** Sums that lie on the border of two quantized values may take either. */
const QUANTIZED_TOLERANCE = 1;

/** Whether results agree; `exact` if the two variants add in the same order. */
export function areSameResults(
  type: LaunchResult["type"],
  reference: Uint8Array,
  found: Uint8Array,
  exact: boolean,
): boolean {
  if (reference.byteLength !== found.byteLength) return false;
  if (exact) return Buffer.compare(reference, found) === 0;
  return type === "f32" ? areCloseFloats(floats(reference), floats(found)) : areCloseBytes(reference, found);
}

function areCloseFloats(reference: Float32Array, found: Float32Array): boolean {
  let scale = 0;
  for (const value of reference) if (Number.isFinite(value)) scale = Math.max(scale, Math.abs(value));
  const most = scale * TOLERANCE;
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

/** The bytes are a copy that begins at a whole word. */
function floats(bytes: Uint8Array): Float32Array {
  const aligned = bytes.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? bytes : Uint8Array.from(bytes);
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / Float32Array.BYTES_PER_ELEMENT);
}
