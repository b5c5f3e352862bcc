// Hostile headers and metadata: each is refused by its own code and field, before anything it sizes is allocated.

import { describe, expect, test } from "vitest";
import { arr, bool, str, u32 } from "./entry.js";
import {
  MAX_ARRAY_DEPTH,
  MAX_ARRAY_ELEMENTS,
  MAX_KEY_BYTES,
  MAX_METADATA_COUNT,
  MAX_NESTED_ARRAYS,
  MAX_STRING_BYTES,
  MAX_TENSOR_COUNT,
} from "./limits.js";
import { RawGguf } from "./testing/raw-gguf.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { encodeGguf } from "./writer.js";

const folder = temporaryFolder();
const NEAR_TWO_TO_64 = 2n ** 64n - 8n;

function oneKey(type: Parameters<RawGguf["key"]>[1]): RawGguf {
  return new RawGguf().header(0, 1).key("some.key", type);
}

describe("magic, version and counts", () => {
  test("rejects an empty file", async () => {
    expect(await folder.refusal(Buffer.alloc(0))).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "header",
      found: "an empty file",
    });
  });

  test("rejects a file that ends inside the fixed header", async () => {
    expect(await folder.refusal(new RawGguf().header(0, 0).build().subarray(0, 23))).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "header",
    });
  });

  test("rejects a file that ends inside the magic", async () => {
    expect(await folder.refusal(Buffer.from("GG"))).toMatchObject({ code: "GGUF_TRUNCATED", field: "header" });
  });

  test.each(["GGML", "ggjt", "PK\u0003\u0004", "FUGG", "no"])("rejects the magic %j", async (magic) => {
    expect(await folder.refusal(Buffer.concat([Buffer.from(magic), Buffer.alloc(64)]))).toMatchObject({
      code: "GGUF_NOT_GGUF",
      field: "header.magic",
    });
  });

  test.each([0, 1, 4, 0x0103_0000])("rejects version %d", async (version) => {
    expect(await folder.refusal(new RawGguf().header(0, 0, version).build())).toMatchObject({
      code: "GGUF_VERSION",
      field: "header.version",
      expected: "version 2 or 3",
      found: String(version),
    });
  });

  test.each([1, 2, 3])("rejects a big-endian file of version %d", async (version) => {
    expect(await folder.refusal(new RawGguf().header(0, 0, version * 2 ** 24).build())).toMatchObject({
      code: "GGUF_BIG_ENDIAN",
      field: "header.version",
      found: `big-endian version ${version}`,
    });
  });

  test.each([MAX_TENSOR_COUNT + 1, 2n ** 63n, NEAR_TWO_TO_64])(
    "rejects a tensor count of %s as past the limit",
    async (count) => {
      expect(await folder.refusal(new RawGguf().header(count, 0).build())).toMatchObject({
        code: "GGUF_LIMIT",
        field: "header.tensor_count",
      });
    },
  );

  test("rejects a tensor count larger than the bytes left could hold", async () => {
    const bytes = new RawGguf()
      .header(4, 0)
      .zeros(3 * 33)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_TRUNCATED", field: "header.tensor_count" });
  });

  test.each([MAX_METADATA_COUNT + 1, 2n ** 63n, NEAR_TWO_TO_64])(
    "rejects a key count of %s as past the limit",
    async (count) => {
      expect(await folder.refusal(new RawGguf().header(0, count).build())).toMatchObject({
        code: "GGUF_LIMIT",
        field: "header.metadata_kv_count",
      });
    },
  );

  test("rejects a key count larger than the bytes left could hold", async () => {
    const bytes = new RawGguf()
      .header(0, 5)
      .zeros(4 * 14)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_TRUNCATED", field: "header.metadata_kv_count" });
  });
});

describe("keys", () => {
  test("rejects a key of length zero", async () => {
    expect(await folder.refusal(new RawGguf().header(0, 1).key("", "uint8").u8(1).zeros(8).build())).toMatchObject({
      code: "GGUF_KEY",
      field: "metadata[0].key",
      found: "a length of 0",
    });
  });

  test("rejects a key that runs past the end", async () => {
    expect(await folder.refusal(new RawGguf().header(0, 1).string("abc", 100).zeros(20).build())).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "metadata[0].key",
    });
  });

  test.each([MAX_KEY_BYTES + 1, NEAR_TWO_TO_64])("rejects a key of length %s", async (length) => {
    expect(await folder.refusal(new RawGguf().header(0, 1).string("abc", length).zeros(20).build())).toMatchObject({
      code: "GGUF_KEY",
      field: "metadata[0].key",
    });
  });

  test("rejects a key that appears twice", async () => {
    const bytes = new RawGguf().header(0, 2).key("twice", "uint8").u8(1).key("twice", "uint8").u8(1).build();
    expect(await folder.refusal(bytes)).toMatchObject({
      code: "GGUF_KEY",
      field: "metadata[1].key",
      found: 'a second "twice"',
    });
  });

  test("rejects a key that is not valid UTF-8", async () => {
    const bytes = new RawGguf()
      .header(0, 1)
      .key(Buffer.from([0xc3, 0x28]), "uint8")
      .u8(1)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_KEY", field: "metadata[0].key" });
  });

  test("rejects a key with terminal escapes, and does not print them", async () => {
    const refusal = await folder.refusal(new RawGguf().header(0, 1).key("a\u001B[2Jb", "uint8").u8(1).build());
    expect(refusal).toMatchObject({ code: "GGUF_KEY", field: "metadata[0].key" });
    expect(refusal.found).not.toContain("\u001B");
  });
});

describe("values", () => {
  test.each([13, 255, 0xffff_ffff])("rejects the unknown value type %d", async (type) => {
    expect(await folder.refusal(oneKey(type).zeros(16).build())).toMatchObject({
      code: "GGUF_VALUE",
      field: "some.key",
      found: `type ${type}`,
    });
  });

  test("rejects an unknown element type", async () => {
    expect(await folder.refusal(oneKey("array").u32(77).u64(0).build())).toMatchObject({
      code: "GGUF_VALUE",
      field: "some.key",
    });
  });

  test("rejects a bool that is neither 0 nor 1", async () => {
    expect(await folder.refusal(oneKey("bool").u8(2).build())).toMatchObject({
      code: "GGUF_VALUE",
      field: "some.key",
      found: "2",
    });
  });

  test("rejects a scalar that runs past the end", async () => {
    expect(await folder.refusal(oneKey("uint64").u32(0).build())).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "some.key",
    });
  });

  test.each([NEAR_TWO_TO_64, 2n ** 64n - 1n, 2n ** 63n, 2n ** 53n, 2n ** 32n, 9n])(
    "rejects a string of length %s in 8 bytes",
    async (length) => {
      expect(await folder.refusal(oneKey("string").string("12345678", length).build())).toMatchObject({
        code: "GGUF_TRUNCATED",
        field: "some.key",
      });
    },
  );

  test("rejects a string above the limit that the file does hold", async () => {
    const bytes = oneKey("string")
      .u64(MAX_STRING_BYTES + 1)
      .zeros(MAX_STRING_BYTES + 1)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_LIMIT", field: "some.key" });
  });

  test("rejects strings that are small each and too large together", async () => {
    const text = "x".repeat(MAX_STRING_BYTES);
    const bytes = encodeGguf({ metadata: ["a", "b", "c", "d"].map((key) => str(key, text)), tensors: [] });
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_LIMIT", field: "d" });
  });

  test("reads invalid UTF-8 in a string value with replacement characters", async () => {
    using file = await folder.open(
      oneKey("string")
        .string(Buffer.from([0x61, 0xff, 0x62]))
        .build(),
    );
    expect(file.metadata.string("some.key")).toBe("a\uFFFDb");
  });
});

describe("arrays", () => {
  test.each([
    ["uint8", 2n ** 64n - 1n],
    ["uint64", 2n ** 61n],
    ["float64", 2n ** 61n + 1n],
    ["string", 2n ** 61n],
    ["uint32", 5n],
  ] as const)("rejects %s elements whose count %s times their size passes the end", async (type, count) => {
    const id = { uint8: 0, uint64: 10, float64: 12, string: 8, uint32: 4 }[type];
    expect(await folder.refusal(oneKey("array").u32(id).u64(count).zeros(16).build())).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "some.key",
    });
  });

  test("rejects more elements than the limit, even if the file contains them", async () => {
    const bytes = oneKey("array")
      .u32(0)
      .u64(MAX_ARRAY_ELEMENTS + 1)
      .zeros(MAX_ARRAY_ELEMENTS + 1)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_LIMIT", field: "some.key" });
  });

  test("rejects a string element that runs past the end", async () => {
    const bytes = oneKey("array").u32(8).u64(2).string("ok").string("cut", 4).build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_TRUNCATED", field: "some.key" });
  });

  test.each([NEAR_TWO_TO_64, 2n ** 63n, 2n ** 56n, 2n ** 32n])(
    "rejects a string element of length %s in 3 bytes",
    async (length) => {
      const bytes = oneKey("array").u32(8).u64(2).string("ok").string("cut", length).build();
      expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_TRUNCATED", field: "some.key[1]" });
    },
  );

  test("rejects a string element above the limit", async () => {
    const bytes = oneKey("array")
      .u32(8)
      .u64(1)
      .u64(MAX_STRING_BYTES + 1)
      .zeros(MAX_STRING_BYTES + 1)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_LIMIT", field: "some.key[0]" });
  });

  test("rejects arrays nested without end", async () => {
    const bytes = oneKey("array");
    for (let depth = 0; depth < 100_000; depth++) bytes.u32(9).u64(1);
    const field = `some.key${"[0]".repeat(MAX_ARRAY_DEPTH - 1)}`;
    expect(await folder.refusal(bytes.build())).toMatchObject({ code: "GGUF_LIMIT", field });
  });

  test("rejects more inner arrays than the limit", async () => {
    const bytes = oneKey("array")
      .u32(9)
      .u64(MAX_NESTED_ARRAYS + 1);
    for (let index = 0; index <= MAX_NESTED_ARRAYS; index++) bytes.u32(0).u64(0);
    expect(await folder.refusal(bytes.build())).toMatchObject({ code: "GGUF_LIMIT", field: "some.key" });
  });

  test("rejects a bool element that is neither 0 nor 1 when it is read", async () => {
    using file = await folder.open(oneKey("array").u32(7).u64(2).u8(1).u8(7).build());
    expect(() => file.metadata.array("some.key")?.toNumbers()).toThrowError(
      expect.objectContaining({ code: "GGUF_VALUE", field: "some.key" }),
    );
  });
});

describe("general.alignment", () => {
  const field = "general.alignment";

  test.each([0, 1, 4, 24, 48, 0x8000_0000, 0xffff_ffff, 131_072])("rejects %d", async (alignment) => {
    const bytes = new RawGguf().header(0, 1).key(field, "uint32").u32(alignment).build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_ALIGNMENT", field, found: `uint32 ${alignment}` });
  });

  test.each([
    str(field, "32"),
    bool(field, true),
    arr(field, "uint32", [32]),
    { key: field, type: "uint64", value: 32 } as const,
  ])("rejects the wrong type $type", async (entry) => {
    const bytes = Buffer.from(encodeGguf({ metadata: [{ ...entry, key: "general.alignmenT" }], tensors: [] }));
    bytes.write("t", bytes.indexOf("alignmenT") + 8);
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_ALIGNMENT", field });
  });

  test.each([8, 32, 4096, 65_536])("accepts %d and places the data accordingly", async (alignment) => {
    const data = Buffer.alloc(8, 7);
    const bytes = encodeGguf({
      alignment,
      metadata: [u32("x", 1)],
      tensors: [{ name: "t", type: "F32", shape: [2], data }],
    });
    using file = await folder.open(bytes);
    expect(file.alignment).toBe(alignment);
    expect((file.tensors.get("t")?.offset ?? 1) % alignment).toBe(0);
  });
});
