// Helpers that write metadata entries: `u32("llama.block_count", 22)`, `arr(key, "string", words)`. Invariant: the type
// is always explicit, because other readers check it.

import { MemoryArray, type ArrayElement } from "./array.js";
import type { GgufEntry } from "./metadata.js";
import type { GgufValueType } from "./value.js";

export type { GgufEntry } from "./metadata.js";

export const u8 = (key: string, value: number): GgufEntry => ({ key, type: "uint8", value });
export const i8 = (key: string, value: number): GgufEntry => ({ key, type: "int8", value });
export const u16 = (key: string, value: number): GgufEntry => ({ key, type: "uint16", value });
export const i16 = (key: string, value: number): GgufEntry => ({ key, type: "int16", value });
export const u32 = (key: string, value: number): GgufEntry => ({ key, type: "uint32", value });
export const i32 = (key: string, value: number): GgufEntry => ({ key, type: "int32", value });
export const u64 = (key: string, value: number | bigint): GgufEntry => ({ key, type: "uint64", value });
export const i64 = (key: string, value: number | bigint): GgufEntry => ({ key, type: "int64", value });
export const f32 = (key: string, value: number): GgufEntry => ({ key, type: "float32", value });
export const f64 = (key: string, value: number): GgufEntry => ({ key, type: "float64", value });
export const bool = (key: string, value: boolean): GgufEntry => ({ key, type: "bool", value });
export const str = (key: string, value: string): GgufEntry => ({ key, type: "string", value });

/** An array entry; string elements may be given as bytes, for vocabularies that are not valid UTF-8. */
export const arr = (key: string, elementType: GgufValueType, values: ArrayLike<ArrayElement>): GgufEntry => ({
  key,
  type: "array",
  value: new MemoryArray(key, elementType, values),
});
