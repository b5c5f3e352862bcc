// Hostile tensor indexes: names, shapes, types and byte ranges.

import { describe, expect, test } from "vitest";
import { GgufError } from "../errors.js";
import { REMOVED_TYPES, SUPPORTED, layoutByName } from "../quant/layout.js";
import { MAX_TENSOR_NAME_BYTES } from "./limits.js";
import { requireSupported } from "./tensor-index.js";
import { RawGguf, type RawTensor } from "./testing/raw-gguf.js";
import { temporaryFolder } from "./testing/temporary-folder.js";

const folder = temporaryFolder();
const DATA_BYTES = 4096;

/** A file whose only fault is in the tensors given: each is 32 F32 unless it says otherwise. */
function withTensors(...tensors: readonly RawTensor[]): Buffer {
  const bytes = new RawGguf().header(tensors.length, 0);
  for (const tensor of tensors) bytes.tensor(tensor);
  return bytes.padTo(32).zeros(DATA_BYTES).build();
}

test("the file that these tests break is accepted when it is not broken", async () => {
  using file = await folder.open(withTensors({ name: "a" }, { name: "b", offset: 128 }));
  expect(
    [...file.tensors.values()].map(({ name, sizeBytes, shape, elements }) => ({ name, sizeBytes, shape, elements })),
  ).toEqual([
    { name: "a", sizeBytes: 128, shape: [32], elements: 32 },
    { name: "b", sizeBytes: 128, shape: [32], elements: 32 },
  ]);
});

describe("names", () => {
  test("rejects an empty name", async () => {
    expect(await folder.refusal(withTensors({ name: "" }))).toMatchObject({
      code: "GGUF_TENSOR_NAME",
      field: "tensor[0].name",
      found: "a length of 0",
    });
  });

  test("accepts the longest name and rejects one byte more", async () => {
    using file = await folder.open(withTensors({ name: "n".repeat(MAX_TENSOR_NAME_BYTES) }));
    expect(file.tensors.size).toBe(1);
    expect(await folder.refusal(withTensors({ name: "n".repeat(MAX_TENSOR_NAME_BYTES + 1) }))).toMatchObject({
      code: "GGUF_TENSOR_NAME",
      field: "tensor[0].name",
    });
  });

  test("rejects a name length near 2^64", async () => {
    const bytes = new RawGguf()
      .header(1, 0)
      .string("a", 2n ** 64n - 1n)
      .zeros(64)
      .build();
    expect(await folder.refusal(bytes)).toMatchObject({ code: "GGUF_TENSOR_NAME", field: "tensor[0].name" });
  });

  test("rejects a name that appears twice", async () => {
    expect(await folder.refusal(withTensors({ name: "a" }, { name: "a", offset: 128 }))).toMatchObject({
      code: "GGUF_TENSOR_NAME",
      field: "tensor[1].name",
      found: 'a second "a"',
    });
  });

  test("rejects a name that is not valid UTF-8", async () => {
    expect(await folder.refusal(withTensors({ name: Buffer.from([0xff]) }))).toMatchObject({
      code: "GGUF_TENSOR_NAME",
      field: "tensor[0].name",
    });
  });

  test("rejects a name with control characters", async () => {
    expect(await folder.refusal(withTensors({ name: "a\nb" }))).toMatchObject({
      code: "GGUF_TENSOR_NAME",
      field: "tensor[0].name",
    });
  });
});

describe("shapes", () => {
  test.each([0, 5, 0xffff_ffff])("rejects %d dimensions", async (dimensionCount) => {
    expect(await folder.refusal(withTensors({ dimensionCount }))).toMatchObject({
      code: "GGUF_TENSOR_SHAPE",
      field: "weight.shape",
      expected: "1 to 4 dimensions",
      found: String(dimensionCount),
    });
  });

  test.each([[[0]], [[32, 0]], [[0, 2 ** 40]]])("rejects the dimension 0 in %j", async (dimensions) => {
    expect(await folder.refusal(withTensors({ dimensions }))).toMatchObject({
      code: "GGUF_TENSOR_SHAPE",
      field: "weight.shape",
    });
  });

  test("rejects a dimension that is negative as a signed number", async () => {
    expect(await folder.refusal(withTensors({ dimensions: [32n, -1n] }))).toMatchObject({
      code: "GGUF_TENSOR_SHAPE",
      field: "weight.shape",
      found: "[32, -1]",
    });
  });

  test.each([
    ["to zero", [2n ** 32n, 2n ** 32n]],
    ["to something small", [2n ** 62n, 4n, 1n, 1n]],
    ["in the bytes only", [2n ** 53n - 1n]],
    ["past what a number holds", [2n ** 30n, 2n ** 30n]],
  ])("rejects an element count that overflows %s", async (_, dimensions) => {
    expect(await folder.refusal(withTensors({ dimensions }))).toMatchObject({
      code: "GGUF_TENSOR_SHAPE",
      field: "weight.shape",
    });
  });

  test.each([
    ["Q4_0", 33],
    ["Q4_K", 128],
    ["NVFP4", 32],
  ] as const)("rejects %s rows of %d elements", async (type, rowElements) => {
    expect(
      await folder.refusal(withTensors({ dimensions: [rowElements, 256], type: layoutByName(type).id })),
    ).toMatchObject({
      code: "GGUF_TENSOR_SHAPE",
      field: "weight.shape",
      found: String(rowElements),
    });
  });
});

describe("types", () => {
  test.each([...REMOVED_TYPES])("rejects the removed type %d, %s", async (type, name) => {
    const refusal = await folder.refusal(withTensors({ dimensions: [256], type }));
    expect(refusal).toMatchObject({ code: "GGUF_TENSOR_TYPE", field: "weight.type" });
    expect(refusal.found).toContain(name);
    for (const supported of SUPPORTED) expect(refusal.expected).toContain(supported.name);
  });

  test.each([43, 99, 0xffff_ffff])("rejects the unknown type %d", async (type) => {
    expect(await folder.refusal(withTensors({ dimensions: [256], type }))).toMatchObject({
      code: "GGUF_TENSOR_TYPE",
      field: "weight.type",
      found: `${type} (unknown)`,
    });
  });

  test("lists a type that has a layout and no decoder, and refuses it in the same words when it is needed", async () => {
    using file = await folder.open(withTensors({ dimensions: [256], type: layoutByName("IQ2_XXS").id }));
    const layout = file.tensors.get("weight")?.layout ?? layoutByName("F32");
    expect(layout.name).toBe("IQ2_XXS");
    expect(() => requireSupported(layout, "weight")).toThrowError(
      expect.objectContaining({
        name: "GgufError",
        code: "GGUF_TENSOR_TYPE",
        field: "weight.type",
        found: "IQ2_XXS (16)",
      }),
    );
    expect(requireSupported(layoutByName("Q4_K"), "weight").name).toBe("Q4_K");
  });
});

describe("byte ranges", () => {
  test.each([1, 16, 33])("rejects the misaligned offset %d", async (offset) => {
    expect(await folder.refusal(withTensors({ offset }))).toMatchObject({
      code: "GGUF_TENSOR_OFFSET",
      field: "weight.offset",
      expected: "a multiple of the alignment, 32",
      found: String(offset),
    });
  });

  test.each([2n ** 64n - 32n, 2n ** 63n, 2n ** 53n - 64n])(
    "rejects the offset %s, which overflows with the size",
    async (offset) => {
      expect(await folder.refusal(withTensors({ offset }))).toMatchObject({
        code: "GGUF_TENSOR_OFFSET",
        field: "weight.offset",
      });
    },
  );

  test("rejects an offset past the end of the file", async () => {
    expect(await folder.refusal(withTensors({ offset: 1_000_000_000_000 - (1_000_000_000_000 % 32) }))).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "weight.data",
    });
  });

  test("rejects data that is one byte shorter than declared", async () => {
    const whole = withTensors({ dimensions: [DATA_BYTES / 4] });
    using file = await folder.open(whole);
    expect(file.tensors.size).toBe(1);
    expect(await folder.refusal(whole.subarray(0, -1))).toMatchObject({
      code: "GGUF_TRUNCATED",
      field: "weight.data",
      expected: `a file of at least ${whole.length} bytes`,
    });
  });

  test("names the tensor that reaches furthest when a file is cut short", async () => {
    expect(
      await folder.refusal(withTensors({ name: "far", offset: 8192 }, { name: "near", offset: 4096 })),
    ).toMatchObject({ field: "far.data" });
  });

  test.each([
    ["the same range", 0],
    ["the tail of another", 96],
  ])("rejects a tensor over %s", async (_, offset) => {
    expect(await folder.refusal(withTensors({ name: "a" }, { name: "b", offset }))).toMatchObject({
      code: "GGUF_TENSOR_OFFSET",
      field: "b.offset",
    });
  });

  test("rejects an overlap whatever the order in the index", async () => {
    const tensors = [
      { name: "late", offset: 256 },
      { name: "cover", dimensions: [512] },
    ];
    expect(await folder.refusal(withTensors(...tensors))).toMatchObject({
      code: "GGUF_TENSOR_OFFSET",
      field: "late.offset",
    });
  });

  test("rejects an index that ends inside a tensor's entry", async () => {
    const bytes = new RawGguf().header(1, 0).string("weight").u32(4).u64(1).u64(1).zeros(5).build();
    const refusal = await folder.refusal(bytes);
    expect(refusal).toMatchObject({ code: "GGUF_TRUNCATED" });
    expect(refusal.field).toBe("weight.shape");
  });
});

test("says which file was refused", async () => {
  const path = folder.write("broken.gguf", withTensors({ name: "" }));
  const { GgufFile } = await import("./file.js");
  const error: unknown = await GgufFile.open(path).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(GgufError);
  expect(error).toMatchObject({ details: { path, field: "tensor[0].name" } });
});
