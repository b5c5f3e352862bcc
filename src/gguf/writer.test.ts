// Writer to reader and back: every value type, both versions, arbitrary files; and what the writer leaves behind
// when it fails.

import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LAYOUTS } from "../quant/layout.js";
import { arr, bool, f32, f64, i16, i32, i64, i8, str, u16, u32, u64, u8, type GgufEntry } from "./entry.js";
import { GgufFile } from "./file.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { isInteger, VALUE_TYPES, type GgufValue } from "./value.js";
import { encodeGguf, writeGguf, type GgufPlan } from "./writer.js";

const INTEGER_TYPES = VALUE_TYPES.filter(isInteger);

const folder = temporaryFolder();

const EVERY_TYPE: readonly GgufEntry[] = [
  u8("u8", 255),
  i8("i8", -128),
  u16("u16", 65_535),
  i16("i16", -32_768),
  u32("u32", 0xffff_ffff),
  i32("i32", -(2 ** 31)),
  u64("u64", 2n ** 64n - 1n),
  u64("u64.safe", 2 ** 53 - 1),
  i64("i64", -(2n ** 63n)),
  i64("i64.safe", -1),
  f32("f32", Math.fround(0.1)),
  f32("f32.nan", Number.NaN),
  f64("f64", Math.PI),
  bool("yes", true),
  bool("no", false),
  str("text", "grüße 🜂 \u0000 end"),
  str("text.empty", ""),
  arr(
    "strings",
    "string",
    Array.from({ length: 200 }, (_, index) => `word ${index}`),
  ),
  arr("strings.none", "string", []),
  arr("bytes", "uint8", [0, 1, 255]),
  arr("wide", "uint64", [0, 2n ** 64n - 1n]),
  arr("floats", "float32", new Float32Array([0.5, -1.25, Number.POSITIVE_INFINITY])),
  arr("flags", "bool", [true, false]),
  arr("nested", "array", [arr("", "int16", [1, -2]).value as never, arr("", "string", ["a", "", "b"]).value as never]),
];

function plain(value: GgufValue): unknown {
  return typeof value === "object" ? [...value].map(plain) : value;
}

function contents(entries: Iterable<GgufEntry>): unknown {
  return [...entries].map(({ key, type, value }) => ({
    key,
    type,
    elements: typeof value === "object" ? value.elementType : undefined,
    value: plain(value),
  }));
}

describe("round trip", () => {
  test.each([2, 3] as const)("keeps every value type in version %d", async (version) => {
    const path = folder.path(`every-${version}.gguf`);
    await writeGguf(path, { version, metadata: EVERY_TYPE, tensors: [] });
    using file = await GgufFile.open(path);
    expect(file.version).toBe(version);
    expect(contents(file.metadata.entries())).toEqual(contents(EVERY_TYPE));
  });

  test("keeps every tensor type with its bytes", async () => {
    const tensors = LAYOUTS.map(({ name, blockElements, blockBytes }, index) => ({
      name: `tensor.${name}`,
      type: name,
      shape: [blockElements * 2, 3],
      data: Buffer.alloc(blockBytes * 6, index + 1),
    }));
    const path = folder.path("types.gguf");
    await writeGguf(path, { metadata: [], tensors });
    using file = await GgufFile.open(path);
    expect(file.tensors.size).toBe(LAYOUTS.length);
    for (const { name, type, shape, data } of tensors) {
      const tensor = file.tensors.get(name);
      expect(tensor).toMatchObject({ layout: { name: type }, shape, sizeBytes: data.length });
      if (tensor === undefined) continue;
      const bytes = new Uint8Array(tensor.sizeBytes);
      await file.readTensor(tensor, bytes);
      expect(Buffer.from(bytes).equals(data)).toBe(true);
    }
  });

  test("copies the metadata of an opened file byte for byte", async () => {
    const bytes = encodeGguf({ metadata: EVERY_TYPE, tensors: [] });
    using file = await folder.open(bytes);
    expect(Buffer.from(encodeGguf({ metadata: [...file.metadata.entries()], tensors: [] })).equals(bytes)).toBe(true);
  });

  test("keeps string elements that are not valid UTF-8", async () => {
    const raw = Buffer.from([0xff, 0x00, 0x80]);
    using file = await folder.open(encodeGguf({ metadata: [arr("vocabulary", "string", ["a", raw])], tensors: [] }));
    const array = file.metadata.array("vocabulary", ["string"]);
    expect(Buffer.from(array?.bytesAt(1) ?? []).equals(raw)).toBe(true);
    expect(array?.at(1)).toBe("\uFFFD\u0000\uFFFD");
  });

  test("writes to disk what it encodes in memory, from bytes, functions and generators", async () => {
    const half = Buffer.alloc(64, 1);
    const plan: GgufPlan = {
      alignment: 64,
      metadata: [str("a", "b")],
      tensors: [
        { name: "bytes", type: "F32", shape: [32], data: Buffer.alloc(128, 3) },
        { name: "function", type: "F32", shape: [32], data: () => Buffer.alloc(128, 4) },
        { name: "generator", type: "F32", shape: [32], data: () => [half, half] },
        { name: "hole", type: "F32", shape: [33], data: "sparse" },
      ],
    };
    const path = folder.path("same.gguf");
    await writeGguf(path, plan);
    expect(readFileSync(path).equals(encodeGguf(plan))).toBe(true);
  });

  test("keeps values wherever the reader's window happens to end", async () => {
    const entries = Array.from({ length: 3_000 }, (_, index) =>
      u64(`k${String(index).padStart(4, "0")}`, 2n ** 64n - BigInt(index) - 1n),
    );
    // One entry takes 25 bytes, so 25 starts put every byte of one on the border.
    for (let shift = 0; shift < 25; shift++) {
      using file = await folder.open(
        encodeGguf({ metadata: [str("shift", "x".repeat(shift)), ...entries], tensors: [] }),
        { mapping: "off" },
      );
      expect(entries.every(({ key, value }) => file.metadata.get(key) === value)).toBe(true);
    }
  });

  test("writes sparse data as a hole", async () => {
    const path = folder.path("giant.gguf");
    await writeGguf(path, {
      metadata: [],
      tensors: [{ name: "giant", type: "F32", shape: [2 ** 14, 2 ** 16], data: "sparse" }],
    });
    const { size, blocks } = statSync(path);
    expect(size).toBeGreaterThan(2 ** 32);
    expect(blocks * 512).toBeLessThan(2 ** 20);
    using file = await GgufFile.open(path);
    expect(file.tensors.get("giant")?.sizeBytes).toBe(2 ** 32);
  });
});

const integerRange = {
  uint8: [0n, 8n],
  int8: [8n, 8n],
  uint16: [0n, 16n],
  int16: [16n, 16n],
  uint32: [0n, 32n],
  int32: [32n, 32n],
  uint64: [0n, 64n],
  int64: [64n, 64n],
} as const;

function integers(type: (typeof INTEGER_TYPES)[number]): fc.Arbitrary<number | bigint> {
  const [signedBits, bits] = integerRange[type];
  const [min, max] = signedBits === 0n ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
  return fc.bigInt({ min, max }).map((value) => (Number.isSafeInteger(Number(value)) ? Number(value) : value));
}

const wellFormed = fc.string({ unit: "grapheme" });
const scalarEntry = (key: string): fc.Arbitrary<GgufEntry> =>
  fc.oneof(
    wellFormed.map((value) => str(key, value)),
    fc.boolean().map((value) => bool(key, value)),
    fc.double().map((value) => f64(key, value)),
    fc.float().map((value) => f32(key, value)),
    ...INTEGER_TYPES.map((type) => integers(type).map((value) => ({ key, type, value }))),
  );
const arrayEntry = (key: string): fc.Arbitrary<GgufEntry> =>
  fc.oneof(
    fc.array(wellFormed, { maxLength: 150 }).map((values) => arr(key, "string", values)),
    ...INTEGER_TYPES.map((type) =>
      fc.array(integers(type), { maxLength: 150 }).map((values) => arr(key, type, values)),
    ),
  );
const entryList = fc
  .uniqueArray(
    fc.stringMatching(/^[a-z][a-z0-9_.]{0,20}$/u).filter((key) => key !== "general.alignment"),
    { maxLength: 8 },
  )
  .chain((keys) => fc.tuple(...keys.map((key) => fc.oneof(scalarEntry(key), arrayEntry(key)))));
const tensorList = fc.array(
  fc.tuple(
    fc.constantFrom(...LAYOUTS),
    fc.integer({ min: 1, max: 4 }),
    fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }),
  ),
  { maxLength: 6 },
);

test("property: whatever is written is read back", async () => {
  await fc.assert(
    fc.asyncProperty(
      entryList,
      tensorList,
      fc.constantFrom(8, 32, 256),
      fc.constantFrom(2, 3),
      async (metadata, shapes, alignment, version) => {
        const tensors = shapes.map(([layout, blocks, outer], index) => ({
          name: `t${index}`,
          type: layout.name,
          shape: [blocks * layout.blockElements, ...outer],
          data: Buffer.alloc(outer.reduce((count, size) => count * size, blocks) * layout.blockBytes, index + 1),
        }));
        using file = await folder.open(encodeGguf({ version: version as 2 | 3, alignment, metadata, tensors }));
        const read = [...file.metadata.entries()].filter(({ key }) => key !== "general.alignment");
        expect(contents(read)).toEqual(contents(metadata));
        for (const { name, shape, type, data } of tensors) {
          const tensor = file.tensors.get(name);
          expect(tensor).toMatchObject({ shape, layout: { name: type }, sizeBytes: data.length });
          if (tensor !== undefined) expect(Buffer.from(file.mappedView(tensor) ?? data).equals(data)).toBe(true);
        }
      },
    ),
    { numRuns: 60 },
  );
});

describe("refusals", () => {
  const refused: readonly (readonly [string, GgufPlan])[] = [
    ["a value that does not fit", { metadata: [u8("a", 256)], tensors: [] }],
    ["a fraction where an integer belongs", { metadata: [u32("a", 1.5)], tensors: [] }],
    ["a value of another type", { metadata: [{ key: "a", type: "bool", value: 1 }], tensors: [] }],
    ["an empty key", { metadata: [u8("", 1)], tensors: [] }],
    ["a repeated key", { metadata: [u8("a", 1), u8("a", 1)], tensors: [] }],
    [
      "a long tensor name",
      { metadata: [], tensors: [{ name: "n".repeat(65), type: "F32", shape: [1], data: "sparse" }] },
    ],
    [
      "a repeated tensor name",
      { metadata: [], tensors: ["a", "a"].map((name) => ({ name, type: "F32", shape: [1], data: "sparse" })) },
    ],
    [
      "a row that is not whole blocks",
      { metadata: [], tensors: [{ name: "a", type: "Q4_K", shape: [128], data: "sparse" }] },
    ],
    ["no dimensions", { metadata: [], tensors: [{ name: "a", type: "F32", shape: [], data: "sparse" }] }],
    [
      "data that is too short",
      { metadata: [], tensors: [{ name: "a", type: "F32", shape: [2], data: Buffer.alloc(7) }] },
    ],
    [
      "data that is too long",
      { metadata: [], tensors: [{ name: "a", type: "F32", shape: [2], data: Buffer.alloc(9) }] },
    ],
    ["an odd alignment", { alignment: 24, metadata: [], tensors: [] }],
  ];

  test.each(refused)("rejects %s, in memory and on disk", async (_, plan) => {
    const path = folder.path("refused.gguf");
    expect(() => encodeGguf(plan)).toThrowError(expect.objectContaining({ code: "OPTION_VALUE" }));
    await expect(writeGguf(path, plan)).rejects.toMatchObject({ code: "OPTION_VALUE" });
    expect(existsSync(path)).toBe(false);
  });
});

describe("failures", () => {
  const tensor = {
    name: "a",
    type: "F32",
    shape: [2 ** 20],
    data: () => [Buffer.alloc(2 ** 21), Buffer.alloc(2 ** 21)],
  } as const;

  function leftovers(): string[] {
    return readdirSync(dirname(folder.path("x"))).filter((name) => name.endsWith(".tmp"));
  }

  test("reports a folder that is not there", async () => {
    await expect(writeGguf(folder.path("no/such/file.gguf"), { metadata: [], tensors: [] })).rejects.toMatchObject({
      name: "FileError",
      code: "FILE_WRITE",
      cause: { code: "ENOENT" },
    });
  });

  test("removes what it wrote when the target cannot be replaced", async () => {
    const path = folder.path("folder.gguf");
    mkdirSync(path);
    await expect(writeGguf(path, { metadata: [], tensors: [tensor] })).rejects.toMatchObject({ code: "FILE_WRITE" });
    expect(leftovers()).toEqual([]);
  });

  test("keeps an older file if producing the data fails half-way", async () => {
    const path = folder.path("older.gguf");
    await writeGguf(path, { metadata: [str("age", "old")], tensors: [] });
    const before = readFileSync(path);
    const cause = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    function* failing(): Generator<Uint8Array> {
      yield Buffer.alloc(2 ** 21);
      throw cause;
    }
    const written = writeGguf(path, { metadata: [], tensors: [{ ...tensor, data: failing }] });
    await expect(written).rejects.toMatchObject({ code: "FILE_WRITE", cause, details: { path, reason: "ENOSPC" } });
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(leftovers()).toEqual([]);
  });

  const limiter = spawnSync("prlimit", ["--version"]).status === 0;
  test.skipIf(!limiter)("removes what it wrote when the system stops it (needs prlimit)", async () => {
    const setLimit = (value: string): Buffer =>
      execFileSync("prlimit", ["--pid", String(process.pid), `--fsize=${value}:`]);
    const path = folder.path("too-large.gguf");
    setLimit(String(2 ** 21));
    let error: unknown;
    try {
      error = await writeGguf(path, { metadata: [], tensors: [tensor] }).catch((caught: unknown) => caught);
    } finally {
      setLimit("unlimited");
    }
    expect(error).toMatchObject({ code: "FILE_WRITE", cause: { code: "EFBIG" } });
    expect(existsSync(path)).toBe(false);
    expect(leftovers()).toEqual([]);
  });
});
