// `rocmforge/gguf`: reads and writes GGUF files, without anything that computes.
/// <reference types="node" preserve="true" />

export type { HeaderSource } from "./header-cursor.js";
export { arr, bool, f32, f64, i16, i32, i64, i8, str, u16, u32, u64, u8 } from "./entry.js";
export { GgufFile, type GgufOpenOptions, type GgufPart, type GgufTensor, type MappingState } from "./file.js";
export type { ArrayElement, GgufArray, StringCursor } from "./array.js";
export type { GgufVersion } from "./header.js";
export type { HeaderBytes } from "./header-bytes.js";
export type { HeaderPlan, TensorPlan } from "./header-encoder.js";
export type { GgufEntry, GgufMetadata, PlainValue } from "./metadata.js";
export type { GgufScalar, GgufValue, GgufValueType } from "./value.js";
export { encodeGguf, type GgufPlan, type GgufWriterTensor, type TensorData, writeGguf } from "./writer.js";
export type { BlockLayout, BlockTypeName } from "../quant/layout.js";
export { FileError, GgufError } from "../errors.js";
