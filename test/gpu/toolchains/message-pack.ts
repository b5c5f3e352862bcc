// Reads MessagePack (msgpack's specification, spec.md): as much of it as compilers write, which is all but floats, binaries
// and extensions. What does not fit is an error, never a guess.

export type PackedValue = null | boolean | number | string | readonly PackedValue[] | ReadonlyMap<string, PackedValue>;

export class MessagePackReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  value(): PackedValue {
    const tag = this.#unsigned(1);
    if (tag <= 0x7f) return tag;
    if (tag <= 0x8f) return this.#map(tag & 0x0f);
    if (tag <= 0x9f) return this.#array(tag & 0x0f);
    if (tag <= 0xbf) return this.#text(tag & 0x1f);
    if (tag >= 0xe0) return tag - 0x100;
    switch (tag) {
      case 0xc0:
        return null;
      case 0xc2:
      case 0xc3:
        return tag === 0xc3;
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return this.#unsigned(2 ** (tag - 0xcc));
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
        return this.#signed(2 ** (tag - 0xd0));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.#text(this.#unsigned(2 ** (tag - 0xd9)));
      case 0xdc:
      case 0xdd:
        return this.#array(this.#unsigned(2 ** (tag - 0xdb)));
      case 0xde:
      case 0xdf:
        return this.#map(this.#unsigned(2 ** (tag - 0xdd)));
      default:
        throw new TypeError(`MessagePack of an unexpected kind: 0x${tag.toString(16)}`);
    }
  }

  #map(count: number): PackedValue {
    const entries = new Map<string, PackedValue>();
    for (let index = 0; index < count; index++) {
      const key = this.value();
      entries.set(String(key), this.value());
    }
    return entries;
  }

  #array(count: number): PackedValue {
    const items: PackedValue[] = [];
    for (let index = 0; index < count; index++) items.push(this.value());
    return items;
  }

  #text(sizeBytes: number): string {
    return this.#take(sizeBytes).toString("utf8");
  }

  #unsigned(sizeBytes: number): number {
    const bytes = this.#take(sizeBytes);
    return sizeBytes === 8 ? Number(bytes.readBigUInt64BE()) : bytes.readUIntBE(0, sizeBytes);
  }

  #signed(sizeBytes: number): number {
    const bytes = this.#take(sizeBytes);
    return sizeBytes === 8 ? Number(bytes.readBigInt64BE()) : bytes.readIntBE(0, sizeBytes);
  }

  #take(sizeBytes: number): Buffer {
    if (this.#at + sizeBytes > this.#bytes.length) throw new TypeError("MessagePack that ends too early");
    this.#at += sizeBytes;
    return this.#bytes.subarray(this.#at - sizeBytes, this.#at);
  }
}
