// How weights are stored on the device, by type: kernels/weights/weights.h has the diagram and
// kernels/weights/repack.hip the conversion. Here is what the host has to know: which types the kernels support, how
// many bytes a tensor takes, and whether it is repacked. Rows are `rowBytes` apart; a repacked row is a series of
// planes, padded to 16 bytes.

import { BackendError } from "../../../errors.js";
import { layoutByName, type SupportedTypeName } from "../../../quant/layout.js";

/** Size of the widest load. */
const ALIGNMENT_BYTES = 16;
/** Weights per block. */
const BLOCK_WEIGHTS = 32;
const SUPER_BLOCK_WEIGHTS = 256;

interface WeightPlane {
  readonly name: string;
  /** Offset from the start of the row. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** How the weights of one tensor are stored on the device. */
export interface WeightLayout {
  /** The type's number in the file, which kernels get as TYPE0. */
  readonly typeId: number;
  /** F32, F16 or BF16: GEMV reads f32 rows instead of quantized ones. */
  readonly plain: boolean;
  /** Whether weights/repack.hip converts the file's bytes; otherwise they are used unchanged. */
  readonly repacked: boolean;
  /** Bytes of one row in the file. */
  readonly fileRowBytes: number;
  readonly rowBytes: number;
  /** Bytes of the whole tensor on the device. */
  readonly sizeBytes: number;
  /** Planes of a repacked row; empty for a row in the file's layout. */
  readonly planes: readonly WeightPlane[];
}

interface PlaneRule {
  readonly name: string;
  readonly bytes: number;
  /** Number of weights that share these bytes. */
  readonly weights: number;
}

const block = (name: string, bytes: number): PlaneRule => ({ name, bytes, weights: BLOCK_WEIGHTS });
const superBlock = (name: string, bytes: number): PlaneRule => ({ name, bytes, weights: SUPER_BLOCK_WEIGHTS });

/** In the order of the row; empty for rows in the file's layout. */
const PLANES: Partial<Record<SupportedTypeName, readonly PlaneRule[]>> = {
  F32: [],
  F16: [],
  BF16: [],
  Q4_K: [block("nibbles", 16), block("scales and minimums", 2), superBlock("units", 4)],
  Q5_K: [],
  Q4_0: [block("nibbles", 16), block("scales", 2)],
  Q4_1: [block("nibbles", 16), block("scales and minimums", 4)],
  Q5_0: [block("nibbles", 16), block("fifth bits", 4), block("scales", 2)],
  Q5_1: [block("nibbles", 16), block("fifth bits", 4), block("scales and minimums", 4)],
  Q8_0: [block("first halves", 16), block("second halves", 16), block("scales", 2)],
  Q2_K: [block("pairs", 8), block("scales", 2), superBlock("units", 4)],
  Q3_K: [block("pairs", 8), block("third bits", 4), block("scales", 2), superBlock("units", 2)],
  Q6_K: [block("nibbles", 16), block("pairs", 8), block("scales", 2), superBlock("units", 2)],
  IQ4_NL: [block("nibbles", 16), block("scales", 2)],
  IQ4_XS: [block("nibbles", 16), block("scales", 1), superBlock("units", 2)],
  TQ1_0: [block("fives", 4), block("threes", 2), superBlock("last bits", 4), superBlock("units", 2)],
  TQ2_0: [block("pairs", 8), superBlock("units", 2)],
  MXFP4: [block("nibbles", 16), block("powers", 1)],
  NVFP4: [block("nibbles", 16), block("scales", 2)],
};

const PLAIN_TYPES: readonly string[] = ["F32", "F16", "BF16"];

/** Whether the kernels support this type. */
export function hasDeviceLayout(type: string): type is SupportedTypeName {
  return Object.hasOwn(PLANES, type);
}

/** The device layout of `rows` rows of `width` weights, which have to be whole blocks of the type. */
export function weightLayout(type: string, width: number, rows: number): WeightLayout {
  const rules = hasDeviceLayout(type) ? PLANES[type] : undefined;
  if (rules === undefined) {
    throw new BackendError(
      "BACKEND_UNSUPPORTED",
      `[gpu] expected weights of ${Object.keys(PLANES).join(", ")}, found ${type}; convert the model`,
      {
        details: { type },
      },
    );
  }
  const { id, blockElements, blockBytes } = layoutByName(type as SupportedTypeName);
  if (
    !Number.isSafeInteger(width) ||
    width < 1 ||
    width % blockElements !== 0 ||
    !Number.isSafeInteger(rows) ||
    rows < 1
  ) {
    throw new BackendError(
      "BACKEND_UNSUPPORTED",
      `[gpu] expected rows of whole ${type} blocks of ${blockElements}, found ${rows} rows of ${width}`,
      {
        details: { type, width, rows },
      },
    );
  }
  const fileRowBytes = (width / blockElements) * blockBytes;
  let end = 0;
  const planes = rules.map(({ name, bytes, weights }) => {
    const plane = { name, offsetBytes: end, sizeBytes: (width / weights) * bytes };
    end += plane.sizeBytes;
    return plane;
  });
  const repacked = planes.length > 0;
  const rowBytes = repacked ? Math.ceil(end / ALIGNMENT_BYTES) * ALIGNMENT_BYTES : fileRowBytes;
  return {
    typeId: id,
    plain: PLAIN_TYPES.includes(type),
    repacked,
    fileRowBytes,
    rowBytes,
    sizeBytes: rowBytes * rows,
    planes,
  };
}
