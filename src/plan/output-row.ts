// Turns output rows that are not finite into errors, each for its own sequence.

import type { OutputRow } from "../backends/contract.js";
import { BackendError } from "../errors.js";

/** An output row without NaN and infinity. */
export type FiniteRow = Exclude<OutputRow, { readonly kind: "not-finite" }>;

/** Throws BACKEND_NOT_FINITE for a row that is not finite. */
export function requireFinite(row: OutputRow | undefined): FiniteRow {
  if (row === undefined) throw new BackendError("BACKEND_STEP", "[step] the backend returned too few rows");
  if (row.kind !== "not-finite") return row;
  throw new BackendError(
    "BACKEND_NOT_FINITE",
    `[step] value ${row.column} of the output is NaN or infinite; the model's weights overflow f32 or are damaged`,
    { details: { column: row.column } },
  );
}
