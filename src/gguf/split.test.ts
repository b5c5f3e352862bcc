// Models in several parts: any part opens all of them; parts that do not belong together are refused.

import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { i32, str, u16, u32, type GgufEntry } from "./entry.js";
import { GgufFile } from "./file.js";
import { MAX_PARTS, MAX_STRING_BYTES } from "./limits.js";
import { partPath } from "./split.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { encodeGguf, writeGguf } from "./writer.js";

const folder = temporaryFolder();

interface PartPlan {
  readonly number?: number;
  readonly count?: number;
  readonly tensorTotal?: number | undefined;
  readonly tensors?: readonly string[];
  readonly metadata?: readonly GgufEntry[];
}

/** Three good parts in a folder of their own, each changed as asked. Gives the stem of their names. */
async function writeParts(name: string, changes: Readonly<Record<number, PartPlan | "missing">> = {}): Promise<string> {
  mkdirSync(folder.path(name));
  const stem = folder.path(`${name}/model`);
  for (let part = 0; part < 3; part++) {
    const change = changes[part] ?? {};
    if (change === "missing") continue;
    const { number = part, count = 3, tensors = [`tensor.${part}`], metadata = [], tensorTotal = 3 } = change;
    await writeGguf(partPath(stem, part, 3), {
      metadata: [
        u16("split.no", number),
        u16("split.count", count),
        i32("split.tensors.count", tensorTotal),
        str("part", `number ${part}`),
        ...metadata,
      ],
      tensors: tensors.map((tensor) => ({ name: tensor, type: "F32", shape: [4], data: Buffer.alloc(16, part + 1) })),
    });
  }
  return stem;
}

describe("parts that ask for too much", () => {
  test("rejects a name with a number beyond the count, and closes what it opened", async () => {
    const stem = await writeParts("beyond");
    copyFileSync(partPath(stem, 1, 3), partPath(stem, 8, 3));
    const descriptors = (): number => readdirSync("/proc/self/fd").length;
    const before = descriptors();
    await expect(GgufFile.open(partPath(stem, 8, 3))).rejects.toMatchObject({ code: "GGUF_SPLIT", field: "split.no" });
    expect(descriptors()).toBe(before);
  });

  test("rejects parts whose text together passes the limit, though none does alone", async () => {
    const text = str("text", "x".repeat(MAX_STRING_BYTES - 1));
    const more = str("more", "y".repeat(MAX_STRING_BYTES - 1));
    const stem = await writeParts("heavy", {
      0: { metadata: [text, more] },
      1: { metadata: [text, more] },
      2: { metadata: [text, more] },
    });
    await expect(GgufFile.open(partPath(stem, 0, 3))).rejects.toMatchObject({ code: "GGUF_LIMIT" });
  });
});

describe("parts that belong together", () => {
  test.each([0, 1, 2])("open from part %d, in order, with the first part's metadata", async (opened) => {
    const stem = await writeParts(`good-${opened}`, { 1: { metadata: [u32("general.alignment", 64)] } });
    using file = await GgufFile.open(partPath(stem, opened, 3));
    expect(file.parts.map(({ path }) => path)).toEqual([0, 1, 2].map((part) => partPath(stem, part, 3)));
    expect(file.parts.map(({ alignment }) => alignment)).toEqual([32, 64, 32]);
    expect(file.metadata.string("part")).toBe("number 0");
    expect([...file.tensors.keys()]).toEqual(["tensor.0", "tensor.1", "tensor.2"]);
    expect(file.sizeBytes).toBe(file.parts.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
    for (const [name, tensor] of file.tensors) {
      const bytes = new Uint8Array(16);
      await file.readTensor(tensor, bytes);
      expect(name).toBe(`tensor.${tensor.part}`);
      expect([...bytes]).toEqual(Array(16).fill(tensor.part + 1));
      if (file.mappingState.mapped) expect([...(file.mappedView(tensor) ?? [])]).toEqual([...bytes]);
    }
  });

  test.each([0, 1])("a file with a count of %d is whole, and needs no number in its name", async (count) => {
    using file = await folder.open(
      encodeGguf({
        metadata: [u16("split.no", 0), u16("split.count", count), i32("split.tensors.count", 7)],
        tensors: [],
      }),
    );
    expect(file.parts).toHaveLength(1);
  });
});

describe("parts that do not", () => {
  test("rejects a missing part by its name and number", async () => {
    const stem = await writeParts("missing", { 1: "missing" });
    const path = partPath(stem, 1, 3);
    await expect(GgufFile.open(partPath(stem, 0, 3))).rejects.toMatchObject({
      name: "FileError",
      code: "FILE_NOT_FOUND",
      details: { path, part: 2, count: 3 },
    });
  });

  test("rejects a part under another part's name", async () => {
    const stem = await writeParts("renamed");
    copyFileSync(partPath(stem, 2, 3), partPath(stem, 1, 3));
    await expect(GgufFile.open(partPath(stem, 0, 3))).rejects.toMatchObject({
      code: "GGUF_SPLIT",
      field: "split.no",
      expected: "1",
      found: "2",
      details: { path: partPath(stem, 1, 3) },
    });
  });

  test.each([
    ["another count", { 1: { count: 4 } }, "split.count"],
    ["another tensor total", { 2: { tensorTotal: 9 } }, "split.tensors.count"],
    ["a tensor that another part has", { 2: { tensors: ["tensor.0"] } }, "tensor.0.name"],
    ["fewer tensors than all together declare", { 2: { tensors: [] } }, "split.tensors.count"],
  ] as const)("rejects a part with %s", async (name, changes, field) => {
    const stem = await writeParts(name, changes);
    await expect(GgufFile.open(partPath(stem, 0, 3))).rejects.toMatchObject({
      name: "GgufError",
      code: "GGUF_SPLIT",
      field,
    });
  });

  test("rejects a truncated part", async () => {
    const stem = await writeParts("cut");
    folder.write("cut/model-00003-of-00003.gguf", Buffer.from("GGUF"));
    await expect(GgufFile.open(partPath(stem, 0, 3))).rejects.toMatchObject({
      code: "GGUF_TRUNCATED",
      details: { path: partPath(stem, 2, 3) },
    });
  });

  test.each(["model.gguf", "model-00001-of-00004.gguf", "model-1-of-3.gguf"])(
    "rejects three parts under the name %s",
    async (name) => {
      const stem = await writeParts(`named-${name}`);
      const path = folder.path(`named-${name}/${name}`);
      copyFileSync(partPath(stem, 0, 3), path);
      await expect(GgufFile.open(path)).rejects.toMatchObject({ code: "GGUF_SPLIT", field: "split.count" });
    },
  );

  test.each([
    ["GGUF_LIMIT", u16("split.count", MAX_PARTS + 1)],
    ["GGUF_SPLIT", i32("split.count", -3)],
    ["GGUF_VALUE", str("split.count", "3")],
  ] as const)("rejects with %s the count $value", async (code, entry) => {
    expect(await folder.refusal(encodeGguf({ metadata: [u16("split.no", 0), entry], tensors: [] }))).toMatchObject({
      code,
      field: "split.count",
    });
  });
});
