// Real files: the embedded model, the fixtures, and the vocabularies if they are available.

import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { GgufFile } from "../../../src/gguf/file.js";

const root = new URL("../../../", import.meta.url);

function filesIn(folder: string): string[] {
  const path = fileURLToPath(new URL(folder, root));
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .filter((name) => name.endsWith(".gguf"))
    .map((name) => `${path}${name}`);
}

describe.each([...filesIn("models/"), ...filesIn("test/fixtures/models/")])("%s", (path) => {
  test("opens, and gives the same tensor bytes by mapping and by reading", async () => {
    using file = await GgufFile.open(path);
    expect(file.metadata.string("general.architecture")).toMatch(/^(?:llama|qwen2)$/u);
    expect(file.tensors.size).toBeGreaterThan(40);
    for (const tensor of file.tensors.values()) {
      const bytes = Buffer.alloc(tensor.sizeBytes);
      await file.readTensor(tensor, bytes);
      const view = file.mappedView(tensor);
      if (view !== undefined) expect(bytes.equals(view)).toBe(true);
      expect(file.mappingState.mapped).toBe(view !== undefined);
    }
  });

  test("has a vocabulary whose arrays agree, whichever way they are read", async () => {
    using file = await GgufFile.open(path);
    const tokens = file.metadata.array("tokenizer.ggml.tokens", ["string"]);
    const types = file.metadata.array("tokenizer.ggml.token_type", ["int32"])?.toNumbers();
    expect(types?.length).toBe(tokens?.length);
    const strings = tokens?.toStrings() ?? [];
    expect(strings.map((_, index) => tokens?.at(index))).toEqual(strings);
  });
});

const vocabularies = filesIn("../shared/vocab/");

describe.skipIf(vocabularies.length === 0)("vocabularies (skipped if ../shared/vocab is absent)", () => {
  test.each(vocabularies)("%s opens without a tensor", async (path) => {
    using file = await GgufFile.open(path);
    expect(file.tensors.size).toBe(0);
    expect(file.metadata.array("tokenizer.ggml.tokens", ["string"])?.toStrings().length).toBeGreaterThan(30_000);
  });
});
