// Builds GGUF bytes field by field, so that a test can make any one of them wrong. Unlike the writer, it checks
// nothing.

import { valueTypeId, type GgufValueType } from "../value.js";

/** Fields of a tensor index entry, each of which may be wrong. */
export interface RawTensor {
  readonly name?: string | Uint8Array;
  readonly dimensions?: readonly (number | bigint)[];
  readonly dimensionCount?: number;
  readonly type?: number;
  readonly offset?: number | bigint;
}

/** Appends fields of a GGUF file without checking them. */
export class RawGguf {
  readonly #parts: Buffer[] = [];
  #length = 0;

  u8(value: number): this {
    return this.#push(Buffer.from([value]));
  }

  u32(value: number): this {
    const part = Buffer.alloc(4);
    part.writeUInt32LE(value);
    return this.#push(part);
  }

  u64(value: number | bigint): this {
    const part = Buffer.alloc(8);
    part.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
    return this.#push(part);
  }

  bytes(value: Uint8Array | string): this {
    return this.#push(Buffer.from(value));
  }

  /** `declaredLength` is written into the length field, whatever the text's real length is. */
  string(text: string | Uint8Array, declaredLength?: number | bigint): this {
    const bytes = Buffer.from(text);
    return this.u64(declaredLength ?? bytes.length).bytes(bytes);
  }

  header(tensorCount: number | bigint, metadataCount: number | bigint, version = 3): this {
    return this.bytes("GGUF").u32(version).u64(tensorCount).u64(metadataCount);
  }

  key(name: string | Uint8Array, type: GgufValueType | number): this {
    return this.string(name).u32(typeof type === "number" ? type : valueTypeId(type));
  }

  tensor({ name = "weight", dimensions = [32], dimensionCount, type = 0, offset = 0 }: RawTensor = {}): this {
    this.string(name).u32(dimensionCount ?? dimensions.length);
    for (const dimension of dimensions) this.u64(dimension);
    return this.u32(type).u64(offset);
  }

  zeros(count: number): this {
    return this.#push(Buffer.alloc(count));
  }

  padTo(alignment: number): this {
    return this.zeros((alignment - (this.#length % alignment)) % alignment);
  }

  build(): Buffer {
    return Buffer.concat(this.#parts);
  }

  #push(part: Buffer): this {
    this.#parts.push(part);
    this.#length += part.length;
    return this;
  }
}
