import { describe, expect, it } from "vitest";
import { readCodeObject } from "./code-object.js";
import { MessagePackReader } from "./message-pack.js";

/** MessagePack by hand: the short forms, and 16 bits for numbers that do not fit. */
function pack(value: unknown): Buffer {
  if (typeof value === "number") return value < 128 ? Buffer.of(value) : Buffer.of(0xcd, value >> 8, value & 255);
  if (typeof value === "string")
    return Buffer.concat([
      value.length < 32 ? Buffer.of(0xa0 | value.length) : Buffer.of(0xd9, value.length),
      Buffer.from(value),
    ]);
  if (Array.isArray(value)) return Buffer.concat([Buffer.of(0x90 | value.length), ...value.map(pack)]);
  const entries = Object.entries(value as object);
  return Buffer.concat([
    Buffer.of(0x80 | entries.length),
    ...entries.flatMap(([key, member]) => [pack(key), pack(member)]),
  ]);
}

function note(name: string, type: number, content: Buffer): Buffer {
  const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
  const head = Buffer.alloc(12);
  head.writeUInt32LE(name.length + 1, 0);
  head.writeUInt32LE(content.length, 4);
  head.writeUInt32LE(type, 8);
  return Buffer.concat([head, padded(Buffer.from(`${name}\0`)), padded(content)]);
}

/** An ELF file of one header, one program header of the given type and its contents. */
function elf(segment: number, contents: Buffer): Buffer {
  const file = Buffer.alloc(120);
  file.write("\u007fELF", "latin1");
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(1, 56);
  file.writeUInt32LE(segment, 64);
  file.writeBigUInt64LE(120n, 72);
  file.writeBigUInt64LE(BigInt(contents.length), 96);
  return Buffer.concat([file, contents]);
}

const KERNEL = {
  ".name": "gemv_1",
  ".vgpr_count": 168,
  ".vgpr_spill_count": 3,
  ".sgpr_spill_count": 9,
  ".private_segment_fixed_size": 300,
  ".group_segment_fixed_size": 64,
  ".max_flat_workgroup_size": 128,
  ".wavefront_size": 32,
  ".args": [
    { ".offset": 0, ".size": 120, ".value_kind": "by_value" },
    { ".offset": 120, ".size": 4, ".value_kind": "hidden_block_count_x" },
  ],
};
const EXPECTED = {
  name: "gemv_1",
  vectorRegisters: 168,
  sharedBytes: 64,
  stackBytes: 300,
  spilledBytes: 12,
  launch: { threads: 128, waveSize: 32, argumentBytes: 120 },
};
const metadata = note(
  "AMDGPU",
  32,
  pack({ "amdhsa.target": "amdgcn-amd-amdhsa--gfx1100", "amdhsa.kernels": [KERNEL] }),
);
const file = elf(4, Buffer.concat([note("GNU", 3, Buffer.alloc(5)), metadata]));

describe("a code object", () => {
  it("says what its kernels take", () => {
    expect(readCodeObject(file)).toEqual([EXPECTED]);
  });

  it("may come in a bundle, behind the host's entry", () => {
    const entries = [
      { name: "host-x86_64-unknown-linux--", contents: Buffer.alloc(0) },
      { name: "hipv4-amdgcn-amd-amdhsa--gfx1100", contents: file },
    ];
    const head = [Buffer.from("__CLANG_OFFLOAD_BUNDLE__"), Buffer.from(BigUint64Array.of(2n).buffer)];
    const headBytes = 32 + entries.reduce((sum, { name }) => sum + 24 + name.length, 0);
    const table = entries.map(({ name, contents }) =>
      Buffer.concat([
        Buffer.from(BigUint64Array.of(BigInt(headBytes), BigInt(contents.length), BigInt(name.length)).buffer),
        Buffer.from(name),
      ]),
    );
    expect(readCodeObject(Buffer.concat([...head, ...table, file]))).toEqual([EXPECTED]);
  });

  it("rejects what is none, or says nothing", () => {
    expect(() => readCodeObject(Buffer.from("BC\u00c0\u00de, and so on"))).toThrow(/no ELF file/);
    expect(() => readCodeObject(elf(1, metadata))).toThrow(/no metadata/);
    expect(() => readCodeObject(elf(4, note("AMDGPU", 32, pack({ "amdhsa.kernels": [] }))))).toThrow(
      /names no kernels/,
    );
  });
});

describe("MessagePack", () => {
  it.each([
    [[0xc0], null],
    [[0xc3], true],
    [[0xff], -1],
    [[0xcc, 200], 200],
    [[0xce, 0, 1, 0, 0], 65_536],
    [[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], 2 ** 32],
    [[0xd1, 0xff, 0], -256],
    [[0xda, 0, 2, 104, 105], "hi"],
    [[0xdc, 0, 1, 7], [7]],
    [[0xde, 0, 1, 0xa1, 97, 1], new Map([["a", 1]])],
  ])("%j", (bytes, value) => {
    expect(new MessagePackReader(Buffer.from(bytes)).value()).toEqual(value);
  });

  it("rejects what is cut short or of another kind", () => {
    expect(() => new MessagePackReader(Buffer.of(0xa5, 104)).value()).toThrow(/too early/);
    expect(() => new MessagePackReader(Buffer.of(0xcb)).value()).toThrow(/unexpected kind: 0xcb/);
  });
});
