// Helpers that write metadata entries: `u32("llama.block_count", 22)`, `arr(key, "string", words)`. Invariant: the type
// is always explicit, because other readers check it.

import { MemoryArray, type ArrayElement } from "./array.js";
import type { GgufEntry } from "./metadata.js";
import type { GgufValueType } from "./value.js";

export type { GgufEntry } from "./metadata.js";

/** A uint8 metadata entry. */
export const u8 = (key: string, value: number): GgufEntry => ({ key, type: "uint8", value });
/** An int8 metadata entry. */
export const i8 = (key: string, value: number): GgufEntry => ({ key, type: "int8", value });
/** A uint16 metadata entry. */
export const u16 = (key: string, value: number): GgufEntry => ({ key, type: "uint16", value });
/** An int16 metadata entry. */
export const i16 = (key: string, value: number): GgufEntry => ({ key, type: "int16", value });
/** A uint32 metadata entry. */
export const u32 = (key: string, value: number): GgufEntry => ({ key, type: "uint32", value });
/** An int32 metadata entry. */
export const i32 = (key: string, value: number): GgufEntry => ({ key, type: "int32", value });
/** A uint64 metadata entry. */
export const u64 = (key: string, value: number | bigint): GgufEntry => ({ key, type: "uint64", value });
/** An int64 metadata entry. */
export const i64 = (key: string, value: number | bigint): GgufEntry => ({ key, type: "int64", value });
/** A float32 metadata entry. */
export const f32 = (key: string, value: number): GgufEntry => ({ key, type: "float32", value });
/** A float64 metadata entry. */
export const f64 = (key: string, value: number): GgufEntry => ({ key, type: "float64", value });
/** A bool metadata entry. */
export const bool = (key: string, value: boolean): GgufEntry => ({ key, type: "bool", value });
/** A string metadata entry. */
export const str = (key: string, value: string): GgufEntry => ({ key, type: "string", value });

/** An array entry; string elements may be given as bytes, for vocabularies that are not valid UTF-8. */
export const arr = (key: string, elementType: GgufValueType, values: ArrayLike<ArrayElement>): GgufEntry => ({
  key,
  type: "array",
  value: new MemoryArray(key, elementType, values),
});
