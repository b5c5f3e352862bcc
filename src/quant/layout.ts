// Every tensor type that a GGUF file can name: id, elements per block, bytes per block, and whether it can be decoded.
// Ids and sizes are the file format's own (ggml's type enumeration) and never change once assigned; ids that were
// withdrawn keep their names here so that an old file is refused with a name and not with a number.

interface LayoutRow {
  readonly id: number;
  readonly name: string;
  readonly blockElements: number;
  readonly blockBytes: number;
  readonly supported: boolean;
}

const TABLE = [
  { id: 0, name: "F32", blockElements: 1, blockBytes: 4, supported: true },
  { id: 1, name: "F16", blockElements: 1, blockBytes: 2, supported: true },
  { id: 2, name: "Q4_0", blockElements: 32, blockBytes: 18, supported: true },
  { id: 3, name: "Q4_1", blockElements: 32, blockBytes: 20, supported: true },
  { id: 6, name: "Q5_0", blockElements: 32, blockBytes: 22, supported: true },
  { id: 7, name: "Q5_1", blockElements: 32, blockBytes: 24, supported: true },
  { id: 8, name: "Q8_0", blockElements: 32, blockBytes: 34, supported: true },
  { id: 9, name: "Q8_1", blockElements: 32, blockBytes: 36, supported: false },
  { id: 10, name: "Q2_K", blockElements: 256, blockBytes: 84, supported: true },
  { id: 11, name: "Q3_K", blockElements: 256, blockBytes: 110, supported: true },
  { id: 12, name: "Q4_K", blockElements: 256, blockBytes: 144, supported: true },
  { id: 13, name: "Q5_K", blockElements: 256, blockBytes: 176, supported: true },
  { id: 14, name: "Q6_K", blockElements: 256, blockBytes: 210, supported: true },
  { id: 15, name: "Q8_K", blockElements: 256, blockBytes: 292, supported: false },
  { id: 16, name: "IQ2_XXS", blockElements: 256, blockBytes: 66, supported: false },
  { id: 17, name: "IQ2_XS", blockElements: 256, blockBytes: 74, supported: false },
  { id: 18, name: "IQ3_XXS", blockElements: 256, blockBytes: 98, supported: false },
  { id: 19, name: "IQ1_S", blockElements: 256, blockBytes: 50, supported: false },
  { id: 20, name: "IQ4_NL", blockElements: 32, blockBytes: 18, supported: true },
  { id: 21, name: "IQ3_S", blockElements: 256, blockBytes: 110, supported: false },
  { id: 22, name: "IQ2_S", blockElements: 256, blockBytes: 82, supported: false },
  { id: 23, name: "IQ4_XS", blockElements: 256, blockBytes: 136, supported: true },
  { id: 24, name: "I8", blockElements: 1, blockBytes: 1, supported: false },
  { id: 25, name: "I16", blockElements: 1, blockBytes: 2, supported: false },
  { id: 26, name: "I32", blockElements: 1, blockBytes: 4, supported: false },
  { id: 27, name: "I64", blockElements: 1, blockBytes: 8, supported: false },
  { id: 28, name: "F64", blockElements: 1, blockBytes: 8, supported: false },
  { id: 29, name: "IQ1_M", blockElements: 256, blockBytes: 56, supported: false },
  { id: 30, name: "BF16", blockElements: 1, blockBytes: 2, supported: true },
  { id: 34, name: "TQ1_0", blockElements: 256, blockBytes: 54, supported: true },
  { id: 35, name: "TQ2_0", blockElements: 256, blockBytes: 66, supported: true },
  { id: 39, name: "MXFP4", blockElements: 32, blockBytes: 17, supported: true },
  { id: 40, name: "NVFP4", blockElements: 64, blockBytes: 36, supported: true },
  { id: 41, name: "Q1_0", blockElements: 128, blockBytes: 18, supported: false },
  { id: 42, name: "Q2_0", blockElements: 64, blockBytes: 18, supported: false },
] as const satisfies readonly LayoutRow[];

type Row = (typeof TABLE)[number];

/** The name of a type whose block size is known. */
export type BlockTypeName = (typeof TABLE)[number]["name"];
/** The name of a type that has a decoder. */
export type SupportedTypeName = Extract<Row, { readonly supported: true }>["name"];

/** How a tensor type stores its elements: block size in elements and bytes. */
export interface BlockLayout {
  readonly id: number;
  readonly name: BlockTypeName;
  /** Elements in one block; a row is always a whole number of blocks. */
  readonly blockElements: number;
  readonly blockBytes: number;
  /** Whether a decoder exists; types without one can be listed and measured, but not used for inference. */
  readonly supported: boolean;
}

/** The block layout of a type that has a decoder. */
export interface SupportedLayout extends BlockLayout {
  readonly name: SupportedTypeName;
  readonly supported: true;
}

/** The layout of every type whose block size is known. */
export const LAYOUTS: readonly BlockLayout[] = TABLE;

/** Whether a layout has a decoder. */
export function isSupported(layout: BlockLayout): layout is SupportedLayout {
  return layout.supported;
}

/** The layouts that have a decoder. */
export const SUPPORTED: readonly SupportedLayout[] = LAYOUTS.filter(isSupported);

/** Ids of withdrawn types: files that use them must be converted again. */
export const REMOVED_TYPES: ReadonlyMap<number, string> = new Map([
  [4, "Q4_2"],
  [5, "Q4_3"],
  [31, "Q4_0_4_4"],
  [32, "Q4_0_4_8"],
  [33, "Q4_0_8_8"],
  [36, "IQ4_NL_4_4"],
  [37, "IQ4_NL_4_8"],
  [38, "IQ4_NL_8_8"],
]);

const BY_ID: ReadonlyMap<number, BlockLayout> = new Map(LAYOUTS.map((layout) => [layout.id, layout]));
const BY_NAME: ReadonlyMap<string, BlockLayout> = new Map(LAYOUTS.map((layout) => [layout.name, layout]));

/** The layout of a type id; undefined if the id is unknown or removed. */
export function layoutById(id: number): BlockLayout | undefined {
  return BY_ID.get(id);
}

/** The layout of a type name. */
export function layoutByName(name: BlockTypeName): BlockLayout {
  // The union type and the map come from one table, so every name is in the map.
  return BY_NAME.get(name) as BlockLayout;
}

/** The name of a type id, including ids without a layout: `Q4_2 (4, removed)`, `99 (unknown)`. */
export function describeTypeId(id: number): string {
  const layout = BY_ID.get(id);
  if (layout !== undefined) return `${layout.name} (${id})`;
  const removed = REMOVED_TYPES.get(id);
  return removed === undefined ? `${id} (unknown)` : `${removed} (${id}, removed)`;
}

/** Decodes `blocks` blocks of one type from `bytes`; the codec has checked the ranges. */
export type DecodeBlocks = (
  bytes: Uint8Array,
  byteOffset: number,
  out: Float32Array,
  outOffset: number,
  blocks: number,
) => void;

/** Encodes values to `blocks` blocks of one type; the codec has checked the ranges. */
export type EncodeBlocks = (
  values: Float32Array,
  valueOffset: number,
  out: Uint8Array,
  byteOffset: number,
  blocks: number,
) => void;
