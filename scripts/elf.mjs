// Reads what a 64-bit little-endian ELF library needs and offers: libraries, symbols and their versions (sections
// .dynamic, .dynsym, .gnu.version, .gnu.version_r, .gnu.version_d as the System V ABI and the LSB define them).

import { readFileSync } from "node:fs";

const [SHT_DYNAMIC, SHT_DYNSYM] = [6, 11];
const [SHT_VERDEF, SHT_VERNEED, SHT_VERSYM] = [0x6ffffffd, 0x6ffffffe, 0x6fffffff];
const DT_NEEDED = 1;
const STB_WEAK = 2;
const HIDDEN_VERSION = 0x8000;
const MAGIC = 0x7f454c46;

class ElfFile {
  constructor(bytes, path) {
    if (bytes.length < 64 || bytes.readUInt32BE(0) !== MAGIC || bytes[4] !== 2 || bytes[5] !== 1)
      throw new Error(`${path} is not a 64-bit little-endian ELF file`);
    this.bytes = bytes;
    const [table, size, count] = [
      Number(bytes.readBigUInt64LE(0x28)),
      bytes.readUInt16LE(0x3a),
      bytes.readUInt16LE(0x3c),
    ];
    this.sections = Array.from({ length: count }, (_, index) => {
      const at = table + index * size;
      const wide = (offset) => Number(bytes.readBigUInt64LE(at + offset));
      return {
        type: bytes.readUInt32LE(at + 4),
        offset: wide(0x18),
        size: wide(0x20),
        link: bytes.readUInt32LE(at + 0x28),
      };
    });
  }

  section(type) {
    return this.sections.find((section) => section.type === type);
  }

  text({ link }, offset) {
    const start = this.sections[link].offset + offset;
    return this.bytes.toString("latin1", start, this.bytes.indexOf(0, start));
  }

  /** Linked records of which each says how far away the next one is. */
  *chain(start, nextOffset) {
    for (let at = start; ;) {
      yield at;
      const next = this.bytes.readUInt32LE(at + nextOffset);
      if (next === 0) return;
      at += next;
    }
  }

  neededLibraries() {
    const dynamic = this.section(SHT_DYNAMIC);
    const names = [];
    for (let at = dynamic?.offset ?? 0; at < (dynamic?.offset ?? 0) + (dynamic?.size ?? 0); at += 16) {
      if (Number(this.bytes.readBigUInt64LE(at)) === DT_NEEDED)
        names.push(this.text(dynamic, Number(this.bytes.readBigUInt64LE(at + 8))));
    }
    return names;
  }

  /** Versions by the index that .gnu.version uses: required ones with their library, defined ones without. */
  versions() {
    const versions = new Map();
    const needed = this.section(SHT_VERNEED);
    for (const at of needed === undefined ? [] : this.chain(needed.offset, 12)) {
      const library = this.text(needed, this.bytes.readUInt32LE(at + 4));
      for (const entry of this.chain(at + this.bytes.readUInt32LE(at + 8), 12))
        versions.set(this.bytes.readUInt16LE(entry + 6), {
          library,
          version: this.text(needed, this.bytes.readUInt32LE(entry + 8)),
        });
    }
    const defined = this.section(SHT_VERDEF);
    for (const at of defined === undefined ? [] : this.chain(defined.offset, 16)) {
      const name = this.bytes.readUInt32LE(at + this.bytes.readUInt32LE(at + 12));
      versions.set(this.bytes.readUInt16LE(at + 4), { library: undefined, version: this.text(defined, name) });
    }
    return versions;
  }

  symbols() {
    const table = this.section(SHT_DYNSYM);
    const indices = this.section(SHT_VERSYM);
    const versions = this.versions();
    return Array.from({ length: (table?.size ?? 0) / 24 }, (_, index) => {
      const at = table.offset + index * 24;
      const version = indices === undefined ? 0 : this.bytes.readUInt16LE(indices.offset + 2 * index);
      return {
        name: this.text(table, this.bytes.readUInt32LE(at)),
        type: this.bytes[at + 4] & 15,
        isWeak: this.bytes[at + 4] >> 4 === STB_WEAK,
        isDefined: this.bytes.readUInt16LE(at + 6) !== 0,
        isDefault: (version & HIDDEN_VERSION) === 0,
        ...versions.get(version & ~HIDDEN_VERSION),
      };
    }).slice(1);
  }
}

/**
 * @param {string} path of a shared library
 * @returns {{ needed: string[], symbols: { name: string, type: number, isWeak: boolean, isDefined: boolean, isDefault: boolean, library?: string, version?: string }[] }}
 */
export function readElf(path) {
  const file = new ElfFile(readFileSync(path), path);
  return { needed: file.neededLibraries(), symbols: file.symbols() };
}

/** The numbers of a version such as GLIBC_2.28; undefined for other names. */
export function glibcVersion(name) {
  const match = /^GLIBC_(\d+)\.(\d+)(?:\.(\d+))?$/.exec(name ?? "");
  return match === null ? undefined : match.slice(1).map((part) => Number(part ?? 0));
}

/** Negative if `left` is the older version. */
export function compareVersions(left, right) {
  return left.map((part, index) => part - right[index]).find((difference) => difference !== 0) ?? 0;
}
