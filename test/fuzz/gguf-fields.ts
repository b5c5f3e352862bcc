// The positions of the integers of a valid GGUF header, so that mutations can target lengths, counts, types and
// offsets. Reads bytes of the writer or of a fixture; it is a map of a valid file, not a parser of invalid ones.

import { fixedBytes, isFixed, valueTypeById, type GgufValueType } from "../../src/gguf/value.js";

export interface HeaderField {
  readonly offset: number;
  readonly widthBytes: number;
}

export interface HeaderMap {
  readonly fields: readonly HeaderField[];
  /** Lengths of array elements: there can be thousands, so they are targeted separately. */
  readonly elementFields: readonly HeaderField[];
  /** Scalar values: a file with another value still opens; the code that uses the value refuses it. */
  readonly valueFields: readonly HeaderField[];
  readonly headerBytes: number;
}

export function mapHeader(bytes: Buffer): HeaderMap {
  return new HeaderWalk(bytes).walk();
}

class HeaderWalk {
  readonly #bytes: Buffer;
  readonly #fields: HeaderField[] = [];
  readonly #elementFields: HeaderField[] = [];
  readonly #valueFields: HeaderField[] = [];
  #offset = 4;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  walk(): HeaderMap {
    this.#u32();
    const tensorCount = this.#u64();
    const metadataCount = this.#u64();
    for (let index = 0; index < metadataCount; index++) {
      this.#string(this.#fields);
      this.#value(this.#type());
    }
    for (let index = 0; index < tensorCount; index++) this.#tensor();
    return {
      fields: this.#fields,
      elementFields: this.#elementFields,
      valueFields: this.#valueFields,
      headerBytes: this.#offset,
    };
  }

  #tensor(): void {
    this.#string(this.#fields);
    const dimensions = this.#u32();
    for (let dimension = 0; dimension < dimensions; dimension++) this.#u64();
    this.#u32();
    this.#u64();
  }

  #value(type: GgufValueType): void {
    if (type === "string") this.#string(this.#fields);
    else if (type === "array") this.#array();
    else {
      this.#valueFields.push({ offset: this.#offset, widthBytes: fixedBytes(type) });
      this.#offset += fixedBytes(type);
    }
  }

  #array(): void {
    const type = this.#type();
    const count = this.#u64();
    if (isFixed(type)) {
      this.#offset += count * fixedBytes(type);
      return;
    }
    for (let index = 0; index < count; index++) {
      if (type === "array") this.#array();
      else this.#string(this.#elementFields);
    }
  }

  #type(): GgufValueType {
    const type = valueTypeById(this.#u32());
    if (type === undefined) throw new Error("the base file of the fuzzer is not a valid GGUF");
    return type;
  }

  #u32(): number {
    this.#fields.push({ offset: this.#offset, widthBytes: 4 });
    this.#offset += 4;
    return this.#bytes.readUInt32LE(this.#offset - 4);
  }

  #u64(fields: HeaderField[] = this.#fields): number {
    fields.push({ offset: this.#offset, widthBytes: 8 });
    this.#offset += 8;
    return Number(this.#bytes.readBigUInt64LE(this.#offset - 8));
  }

  #string(fields: HeaderField[]): void {
    const lengthBytes = this.#u64(fields);
    this.#offset += lengthBytes;
  }
}
