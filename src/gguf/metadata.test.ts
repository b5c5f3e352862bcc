// Typed getters and arrays: absent is undefined, another type is GGUF_VALUE, and lazily read equals eagerly given.

import { truncateSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { CHECKPOINT_STRINGS, type GgufArray } from "./array.js";
import { arr, bool, f32, i32, str, u64 } from "./entry.js";
import { GgufFile } from "./file.js";
import { GgufMetadata } from "./metadata.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { encodeGguf } from "./writer.js";

const folder = temporaryFolder();
const WORDS = Array.from({ length: CHECKPOINT_STRINGS * 3 + 5 }, (_, index) => "ä".repeat(index % 7) + index);

describe("typed getters", () => {
  const metadata = new GgufMetadata([
    str("text", "hello"),
    i32("negative", -5),
    f32("fraction", 0.5),
    f32("endless", Number.POSITIVE_INFINITY),
    u64("huge", 2n ** 60n),
    bool("flag", true),
    arr("words", "string", ["a"]),
  ]);

  test("give the value, and undefined for an absent key", () => {
    expect([
      metadata.string("text"),
      metadata.integer("negative"),
      metadata.number("fraction"),
      metadata.boolean("flag"),
    ]).toEqual(["hello", -5, 0.5, true]);
    expect(metadata.array("words", ["string"])?.toStrings()).toEqual(["a"]);
    expect(textsOf(metadata.array("words", ["string"]))).toEqual(["a"]);
    expect(
      ["string", "number", "integer", "boolean", "array"].map((kind) => metadata[kind as "string"]("absent")),
    ).toEqual(Array(5).fill(undefined));
    expect(metadata.get("huge")).toBe(2n ** 60n);
    expect([metadata.typeOf("huge"), metadata.typeOf("absent"), metadata.has("flag"), metadata.size]).toEqual([
      "uint64",
      undefined,
      true,
      7,
    ]);
  });

  test.each([
    ["string", "flag", "bool true"],
    ["number", "text", 'string "hello"'],
    ["number", "flag", "bool true"],
    ["number", "endless", "float32 Infinity"],
    ["number", "huge", "uint64 1152921504606846976"],
    ["integer", "fraction", "float32 0.5"],
    ["boolean", "negative", "int32 -5"],
    ["array", "text", 'string "hello"'],
  ] as const)("%s rejects %s", (kind, key, found) => {
    expect(() => metadata[kind](key)).toThrowError(
      expect.objectContaining({ name: "GgufError", code: "GGUF_VALUE", field: key, found }),
    );
  });

  test("array rejects other element types", () => {
    expect(() => metadata.array("words", ["int32", "uint32"])).toThrowError(
      expect.objectContaining({
        code: "GGUF_VALUE",
        field: "words",
        expected: "array of int32 or uint32",
        found: "array of 1 string",
      }),
    );
  });

  test("plain records get a type that fits", () => {
    const plain = GgufMetadata.of({
      a: 1,
      b: 2 ** 40,
      c: 0.5,
      d: "x",
      e: false,
      f: ["x"],
      g: [1, 2],
      h: [1, 0.5],
      i: [],
    });
    expect(["a", "b", "c", "d", "e"].map((key) => plain.typeOf(key))).toEqual([
      "int32",
      "int64",
      "float32",
      "string",
      "bool",
    ]);
    expect(["f", "g", "h", "i"].map((key) => plain.array(key)?.elementType)).toEqual([
      "string",
      "int32",
      "float32",
      "string",
    ]);
  });
});

describe("arrays from a file", () => {
  const entries = [
    arr("words", "string", WORDS),
    arr("numbers", "float32", [1, -2, 0.5]),
    arr("flags", "bool", [true, false]),
    arr("wide", "int64", [1, 2n ** 60n]),
  ];

  test("give any element in any order", async () => {
    using file = await folder.open(encodeGguf({ metadata: entries, tensors: [] }));
    const words = file.metadata.array("words", ["string"]);
    for (const index of [WORDS.length - 1, 0, CHECKPOINT_STRINGS, CHECKPOINT_STRINGS - 1, 130]) {
      expect(words?.at(index)).toBe(WORDS[index]);
      expect(Buffer.from(words?.bytesAt(index) ?? []).toString()).toBe(WORDS[index]);
    }
    expect(words?.toStrings()).toEqual(WORDS);
    expect(textsOf(words)).toEqual(WORDS);
    expect([...(words ?? [])]).toEqual(WORDS);
    expect([...(file.metadata.array("numbers")?.toNumbers() ?? [])]).toEqual([1, -2, 0.5]);
    expect([...(file.metadata.array("flags")?.toNumbers() ?? [])]).toEqual([1, 0]);
    expect(file.metadata.array("flags")?.at(0)).toBe(true);
  });

  test("reject what their elements are not", async () => {
    using file = await folder.open(encodeGguf({ metadata: entries, tensors: [] }));
    const wrong = expect.objectContaining({ code: "GGUF_VALUE" });
    expect(() => file.metadata.array("words")?.toNumbers()).toThrowError(wrong);
    expect(() => file.metadata.array("numbers")?.toStrings()).toThrowError(wrong);
    expect(() => file.metadata.array("numbers")?.bytesAt(0)).toThrowError(wrong);
    expect(() => file.metadata.array("wide")?.toNumbers()).toThrowError(wrong);
  });

  test.each([-1, WORDS.length, 0.5, Number.NaN])("reject the index %d", async (index) => {
    using file = await folder.open(encodeGguf({ metadata: entries, tensors: [] }));
    expect(() => file.metadata.array("words")?.at(index)).toThrowError(
      expect.objectContaining({ code: "OPTION_VALUE" }),
    );
  });

  test("reject a file that has shrunk since it was opened", async () => {
    const path = folder.write("shrinks.gguf", encodeGguf({ metadata: entries, tensors: [] }));
    using file = await GgufFile.open(path);
    truncateSync(path, 100);
    expect(() => file.metadata.array("words")?.at(0)).toThrowError(
      expect.objectContaining({ code: "GGUF_TRUNCATED", field: "words" }),
    );
  });

  test("reject strings that have changed since they were indexed", async () => {
    const bytes = Buffer.from(encodeGguf({ metadata: entries, tensors: [] }));
    const path = folder.write("changes.gguf", bytes);
    using file = await GgufFile.open(path, { mapping: "off" });
    writeFileSync(path, Buffer.concat([bytes.subarray(0, 60), Buffer.alloc(bytes.length - 60, 0xee)]), { flag: "r+" });
    const truncated = expect.objectContaining({ code: "GGUF_TRUNCATED", field: "words" });
    expect(() => file.metadata.array("words")?.toStrings()).toThrowError(truncated);
    // The first leads past the range at once, the second only after walking some.
    for (const index of [CHECKPOINT_STRINGS, CHECKPOINT_STRINGS + 36])
      expect(() => file.metadata.array("words")?.at(index)).toThrowError(truncated);
  });

  test("cannot be read for the first time once the file is disposed", async () => {
    const file = await folder.open(encodeGguf({ metadata: [...entries, str("name", "kept")], tensors: [] }));
    const words = file.metadata.array("words");
    expect(words?.at(3)).toBe(WORDS[3]);
    file[Symbol.dispose]();
    expect(words?.at(4)).toBe(WORDS[4]);
    expect(file.metadata.string("name")).toBe("kept");
    expect(() => file.metadata.array("numbers")?.at(0)).toThrowError(expect.objectContaining({ code: "DISPOSED" }));
  });
});

function textsOf(array: GgufArray | undefined): string[] {
  const cursor = array?.strings();
  const texts: string[] = [];
  while (cursor?.next() === true) texts.push(Buffer.from(cursor.bytes.subarray(cursor.start, cursor.end)).toString());
  return texts;
}
