// Random weights of every supported type, as a stream of bounded chunks at about the speed of a disk. Blocks are random
// bytes whose scales are set so that the decoded values have the requested magnitude; plain floats come from a table.
// The same seed gives the same bytes on every machine.

import { type Cipher, createCipheriv, createHash } from "node:crypto";
import { codecFor } from "../../quant/codec.js";
import { floatToBfloat, floatToHalf } from "../../quant/half.js";
import { layoutByName, type SupportedTypeName } from "../../quant/layout.js";
import { RandomSource } from "../../sampler/rng.js";

const CHUNK_BYTES = 2 ** 21;
const BYTE_VALUES = 256;
const BELL_VALUES = 0x10000;
/** Enough blocks to measure the magnitude of a type's values to one percent. */
const MEASURED_BLOCKS = 512;
/** Scales vary from block to block by these factors. */
const LOWEST_FACTOR = 0.6;
const HIGHEST_FACTOR = 1.4;

type PlainType = "F32" | "F16" | "BF16";

/** Bytes `from` to `to` of a block must have certain values: each is replaced by the table's entry for it. */
interface Alphabet {
  readonly from: number;
  readonly to: number;
  readonly bytes: (size: number) => Uint8Array;
}

interface BlockRecipe {
  /** The offset of the half-precision scale. */
  readonly scaleAt?: number;
  /** A second half follows the scale: the scale times this ratio, which brings the mean to zero. */
  readonly minimumRatio?: number;
  /** Whether every byte is made odd. */
  readonly oddBytes?: boolean;
  readonly alphabet?: Alphabet;
  readonly secondAlphabet?: Alphabet;
}

const RECIPES: { readonly [Type in Exclude<SupportedTypeName, PlainType>]: BlockRecipe } = {
  Q4_0: { scaleAt: 0 },
  Q4_1: { scaleAt: 0, minimumRatio: -7.5 },
  Q5_0: { scaleAt: 0 },
  Q5_1: { scaleAt: 0, minimumRatio: -15.5 },
  // Quantizers never write -128, and fast kernels of other engines rely on that; it cannot occur if all bytes are odd.
  Q8_0: { scaleAt: 0, oddBytes: true },
  Q2_K: { scaleAt: 80, minimumRatio: 1.5 },
  Q3_K: { scaleAt: 108 },
  Q4_K: { scaleAt: 0, minimumRatio: 7.5 },
  Q5_K: { scaleAt: 0, minimumRatio: 15.5 },
  Q6_K: { scaleAt: 208 },
  IQ4_NL: { scaleAt: 0 },
  IQ4_XS: { scaleAt: 0 },
  // Five base-3 digits are stored as a fraction of 256; in the last four bytes, four digits.
  TQ1_0: {
    scaleAt: 52,
    alphabet: { from: 0, to: 48, bytes: () => byteTable((byte) => Math.ceil(((byte % 243) * 256) / 243)) },
    secondAlphabet: { from: 48, to: 52, bytes: () => byteTable((byte) => Math.ceil(((byte % 81) * 3 * 256) / 243)) },
  },
  // Two bits per digit; the fourth code is not used.
  TQ2_0: { scaleAt: 64, alphabet: { from: 0, to: 64, bytes: () => byteTable(fourDigits) } },
  MXFP4: { alphabet: { from: 0, to: 1, bytes: (size) => byteTable((byte) => powerScale(size) + (byte % 3) - 1) } },
  NVFP4: { alphabet: { from: 0, to: 4, bytes: (size) => byteTable((byte) => floatScale(size * factorOf(byte))) } },
};

/** The root mean square of a 4-bit float with a random code. */
const FP4_SIZE = 2.926;

function fourDigits(byte: number): number {
  return (
    (byte % 3) |
    ((Math.floor(byte / 3) % 3) << 2) |
    ((Math.floor(byte / 9) % 3) << 4) |
    ((Math.floor(byte / 27) % 3) << 6)
  );
}

/** The code of a power of two. */
function powerScale(size: number): number {
  return 127 + Math.round(Math.log2(size / FP4_SIZE));
}

/** The code of an unsigned float of four exponent bits (bias 7) and three of mantissa, at or above a value. */
function floatScale(size: number): number {
  for (let code = 1; code < 0x7e; code++) {
    const exponent = code >> 3;
    const mantissa = code & 7;
    const value = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
    if (value >= size / FP4_SIZE) return code;
  }
  return 0x7e;
}

function byteTable(of: (byte: number) => number): Uint8Array {
  return Uint8Array.from({ length: BYTE_VALUES }, (_, byte) => of(byte));
}

function factorOf(byte: number): number {
  return LOWEST_FACTOR + ((HIGHEST_FACTOR - LOWEST_FACTOR) * byte) / (BYTE_VALUES - 1);
}

/** Generates tensors one after another; each continues the random bytes of its predecessor. */
export class RandomWeights {
  readonly #bytes: Cipher;
  readonly #zeros = Buffer.alloc(CHUNK_BYTES);
  readonly #seed: number;
  #drawnBell: Float64Array | undefined;
  readonly #unitSizes = new Map<SupportedTypeName, number>();

  constructor(seed: number) {
    // A cipher's key stream is the fastest good random source in Node.
    const key = createHash("sha256").update(`weights ${seed}`).digest();
    this.#bytes = createCipheriv("aes-128-ctr", key.subarray(0, 16), key.subarray(16, 32));
    this.#seed = seed;
  }

  /** Drawn when it is first asked for: few files have plain floats. */
  get #bell(): Float64Array {
    if (this.#drawnBell !== undefined) return this.#drawnBell;
    const source = new RandomSource(this.#seed);
    const between = (): number => 2 * source.next() - 1;
    this.#drawnBell = Float64Array.from({ length: BELL_VALUES }, () => between() + between() + between());
    return this.#drawnBell;
  }

  /** The bytes of a tensor whose values have about the root mean square `size`; a chunk is valid until the next. */
  *chunks(type: SupportedTypeName, elements: number, size: number): Generator<Uint8Array, void, undefined> {
    if (type === "F32" || type === "F16" || type === "BF16") {
      yield* this.#floats(elements, this.#bellTable(type, size));
      return;
    }
    const { blockElements, blockBytes } = layoutByName(type);
    const chunkBlocks = Math.floor(CHUNK_BYTES / blockBytes);
    const shape = new BlockShaper(type, size, size / this.#unitSize(type));
    for (let blocks = elements / blockElements; blocks > 0; blocks -= chunkBlocks) {
      const chunk = this.#random(Math.min(blocks, chunkBlocks) * blockBytes);
      shape.apply(chunk);
      yield chunk;
    }
  }

  /** Every float is an entry of the table, chosen by sixteen random bits. */
  *#floats(elements: number, table: Uint16Array | Uint32Array): Generator<Uint8Array, void, undefined> {
    const width = table.BYTES_PER_ELEMENT;
    const chunkElements = CHUNK_BYTES / width;
    const out = width === 2 ? new Uint16Array(chunkElements) : new Uint32Array(chunkElements);
    for (let left = elements; left > 0; left -= chunkElements) {
      const count = Math.min(left, chunkElements);
      const random = this.#random(count * 2);
      lookUp(table, new Uint16Array(random.buffer, random.byteOffset, count), out);
      yield new Uint8Array(out.buffer, 0, count * width);
    }
  }

  #bellTable(type: PlainType, size: number): Uint16Array | Uint32Array {
    if (type === "F32") return new Uint32Array(Float32Array.from(this.#bell, (value) => value * size).buffer);
    const encode = type === "F16" ? floatToHalf : floatToBfloat;
    return Uint16Array.from(this.#bell, (value) => encode(value * size));
  }

  #random(sizeBytes: number): Buffer {
    const bytes = this.#bytes.update(this.#zeros.subarray(0, sizeBytes));
    // Views of 16 bits need an even offset, which a large buffer has and a pooled one may not have.
    return bytes.byteOffset % 2 === 0 ? bytes : Buffer.from(bytes);
  }

  /** The magnitude of random blocks with a scale of about 1, measured with the decoder. */
  #unitSize(type: SupportedTypeName): number {
    const known = this.#unitSizes.get(type);
    if (known !== undefined) return known;
    const { blockElements, blockBytes } = layoutByName(type);
    const bytes = this.#random(MEASURED_BLOCKS * blockBytes);
    new BlockShaper(type, 1, 1).apply(bytes);
    const values = new Float32Array(MEASURED_BLOCKS * blockElements);
    codecFor(type).decode(bytes, 0, values, 0, MEASURED_BLOCKS);
    const size = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
    this.#unitSizes.set(type, size);
    return size;
  }
}

/** Turns random bytes into blocks of one type. */
class BlockShaper {
  readonly #blockBytes: number;
  readonly #recipe: BlockRecipe;
  readonly #alphabets: readonly { readonly from: number; readonly to: number; readonly table: Uint8Array }[];
  readonly #scales: Uint16Array;
  readonly #minima: Uint16Array;

  constructor(type: SupportedTypeName, size: number, scale: number) {
    this.#recipe = RECIPES[type as Exclude<SupportedTypeName, PlainType>];
    this.#blockBytes = layoutByName(type).blockBytes;
    const { alphabet, secondAlphabet, minimumRatio = 0 } = this.#recipe;
    this.#alphabets = [alphabet, secondAlphabet]
      .filter((given) => given !== undefined)
      .map(({ from, to, bytes }) => ({ from, to, table: bytes(size) }));
    this.#scales = Uint16Array.from({ length: BYTE_VALUES }, (_, byte) => floatToHalf(scale * factorOf(byte)));
    this.#minima = Uint16Array.from({ length: BYTE_VALUES }, (_, byte) =>
      floatToHalf(scale * factorOf(byte) * minimumRatio),
    );
  }

  apply(bytes: Uint8Array): void {
    for (const { from, to, table } of this.#alphabets) replace(bytes, this.#blockBytes, from, to, table);
    const { oddBytes, scaleAt, minimumRatio } = this.#recipe;
    if (oddBytes === true) makeOdd(bytes);
    if (scaleAt === undefined) return;
    for (let at = scaleAt; at < bytes.length; at += this.#blockBytes) {
      const choice = bytes[at];
      putHalf(bytes, at, this.#scales[choice]);
      if (minimumRatio !== undefined) putHalf(bytes, at + 2, this.#minima[choice]);
    }
  }
}

// Loops over every element are in functions of their own: inside a generator they are slower.

function lookUp(table: Uint16Array | Uint32Array, chosen: Uint16Array, out: Uint16Array | Uint32Array): void {
  for (let index = 0; index < chosen.length; index++) out[index] = table[chosen[index]];
}

/** Types that need this have blocks of an even size. */
function makeOdd(bytes: Uint8Array): void {
  const pairs = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  for (let index = 0; index < pairs.length; index++) pairs[index] |= 0x0101;
}

function replace(bytes: Uint8Array, blockBytes: number, from: number, to: number, table: Uint8Array): void {
  for (let block = 0; block < bytes.length; block += blockBytes) {
    for (let at = block + from; at < block + to; at++) bytes[at] = table[bytes[at]];
  }
}

function putHalf(bytes: Uint8Array, at: number, half: number): void {
  bytes[at] = half;
  bytes[at + 1] = half >> 8;
}
