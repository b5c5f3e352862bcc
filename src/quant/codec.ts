// One decoder, and for some types an encoder, per supported block type: the readable reference that every backend's own
// dequantization is compared with. Decoded values are bit-equal to what ggml computes in f32. A codec checks its ranges
// once per call, so its inner loops do not; whole tensors go through decodeTensor.

import { QuantError } from "../errors.js";
import { decodeBF16, decodeF16, decodeF32, encodeBF16, encodeF16, encodeF32 } from "./float.js";
import { decodeMXFP4, decodeNVFP4 } from "./fp4.js";
import { decodeIQ4_NL, decodeIQ4_XS } from "./iq4.js";
import {
  type BlockLayout,
  type DecodeBlocks,
  type EncodeBlocks,
  layoutByName,
  type SupportedTypeName,
} from "./layout.js";
import { decodeQ2_K } from "./q2-k.js";
import { decodeQ3_K } from "./q3-k.js";
import { decodeQ4_K, decodeQ5_K, encodeQ4_K } from "./q4-k.js";
import { decodeQ6_K, encodeQ6_K } from "./q6-k.js";
import { decodeQ4_0, decodeQ4_1, decodeQ5_0, decodeQ5_1, decodeQ8_0, encodeQ4_0, encodeQ8_0 } from "./simple.js";
import { decodeTQ1_0, decodeTQ2_0 } from "./ternary.js";

/** The decoder of a block type, and its encoder if there is one. */
interface BlockCodec {
  readonly layout: BlockLayout;
  /** Decodes blocks; writes exactly `blocks * layout.blockElements` values. */
  readonly decode: DecodeBlocks;
  /** Encodes blocks; writes exactly `blocks * layout.blockBytes` bytes. A block with NaN or infinity decodes to NaN. */
  readonly encode?: EncodeBlocks;
}

const CODECS: { readonly [K in SupportedTypeName]: BlockCodec } = {
  F32: codec("F32", decodeF32, encodeF32),
  F16: codec("F16", decodeF16, encodeF16),
  BF16: codec("BF16", decodeBF16, encodeBF16),
  Q4_0: codec("Q4_0", decodeQ4_0, encodeQ4_0),
  Q4_1: codec("Q4_1", decodeQ4_1),
  Q5_0: codec("Q5_0", decodeQ5_0),
  Q5_1: codec("Q5_1", decodeQ5_1),
  Q8_0: codec("Q8_0", decodeQ8_0, encodeQ8_0),
  Q2_K: codec("Q2_K", decodeQ2_K),
  Q3_K: codec("Q3_K", decodeQ3_K),
  Q4_K: codec("Q4_K", decodeQ4_K, encodeQ4_K),
  Q5_K: codec("Q5_K", decodeQ5_K),
  Q6_K: codec("Q6_K", decodeQ6_K, encodeQ6_K),
  IQ4_NL: codec("IQ4_NL", decodeIQ4_NL),
  IQ4_XS: codec("IQ4_XS", decodeIQ4_XS),
  TQ1_0: codec("TQ1_0", decodeTQ1_0),
  TQ2_0: codec("TQ2_0", decodeTQ2_0),
  MXFP4: codec("MXFP4", decodeMXFP4),
  NVFP4: codec("NVFP4", decodeNVFP4),
};

/** The types that have an encoder. */
export const ENCODABLE: readonly SupportedTypeName[] = Object.values(CODECS)
  .filter((entry) => entry.encode !== undefined)
  .map((entry) => entry.layout.name as SupportedTypeName);

/** The codec of a block type. */
export function codecFor(type: SupportedTypeName): BlockCodec {
  return CODECS[type];
}

/** Decodes all of a tensor's values. The allocation is bounded by the bytes given, not by the count requested. */
export function decodeTensor(type: SupportedTypeName, bytes: Uint8Array, elements: number): Float32Array {
  const { layout, decode } = CODECS[type];
  const blocks = wholeBlocks(layout, elements);
  if (bytes.length !== blocks * layout.blockBytes) {
    throw sizeError(layout, `${blocks * layout.blockBytes} bytes for ${elements} elements`, `${bytes.length} bytes`);
  }
  const out = new Float32Array(elements);
  decode(bytes, 0, out, 0, blocks);
  return out;
}

/** Encodes a tensor's values; throws QUANT_UNSUPPORTED if the type has no encoder. */
export function encodeTensor(type: SupportedTypeName, values: Float32Array): Uint8Array {
  const { layout, encode } = CODECS[type];
  if (encode === undefined) {
    throw new QuantError(
      "QUANT_UNSUPPORTED",
      `[quant] ${type} can be read but not written; types that can be written: ${ENCODABLE.join(", ")}`,
      {
        details: { type, encodable: ENCODABLE },
      },
    );
  }
  const blocks = wholeBlocks(layout, values.length);
  const out = new Uint8Array(blocks * layout.blockBytes);
  encode(values, 0, out, 0, blocks);
  return out;
}

function wholeBlocks(layout: BlockLayout, elements: number): number {
  if (!Number.isSafeInteger(elements) || elements < 0 || elements % layout.blockElements !== 0) {
    throw sizeError(layout, `a multiple of ${layout.blockElements} elements`, `${elements}`);
  }
  return elements / layout.blockElements;
}

function codec(type: SupportedTypeName, decode: DecodeBlocks, encode?: EncodeBlocks): BlockCodec {
  const layout = layoutByName(type);
  const checked: BlockCodec = {
    layout,
    decode(bytes, byteOffset, out, outOffset, blocks) {
      checkRange(layout, "bytes", byteOffset, blocks * layout.blockBytes, bytes.length);
      checkRange(layout, "values", outOffset, blocks * layout.blockElements, out.length);
      decode(bytes, byteOffset, out, outOffset, blocks);
    },
  };
  if (encode === undefined) return checked;
  return {
    ...checked,
    encode(values, valueOffset, out, byteOffset, blocks) {
      checkRange(layout, "values", valueOffset, blocks * layout.blockElements, values.length);
      checkRange(layout, "bytes", byteOffset, blocks * layout.blockBytes, out.length);
      encode(values, valueOffset, out, byteOffset, blocks);
    },
  };
}

function checkRange(layout: BlockLayout, what: string, offset: number, count: number, available: number): void {
  const whole = Number.isSafeInteger(offset) && Number.isSafeInteger(count) && offset >= 0 && count >= 0;
  if (whole && offset + count <= available) return;
  throw sizeError(layout, `${what} from ${offset} to ${offset + count}`, `${available} ${what}`);
}

function sizeError(layout: BlockLayout, expected: string, found: string): QuantError {
  return new QuantError("QUANT_SIZE", `[quant] ${layout.name}: expected ${expected}, found ${found}`, {
    details: { type: layout.name, expected, found },
  });
}
