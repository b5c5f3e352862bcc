// Vocabularies that a thread decodes, which runs from dist/: the tokenizer is the one that the main thread would have made,
// and whatever goes wrong in the thread, the main thread makes it.

import { spawnSync } from "node:child_process";
import { appendFileSync, copyFileSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { arr, type GgufEntry, str } from "../../../src/gguf/entry.js";
import { fileIdentity, GgufFile } from "../../../src/gguf/file.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { SPELLING_OF_BYTE } from "../../../src/tokenizer/byte-level.js";
import { TokenizerBuilder } from "../../../src/tokenizer/tokenizer-builder.js";
import { createTokenizer, type Tokenizer } from "../../../src/tokenizer/tokenizer.js";
import { VocabularyWorker } from "../../../src/tokenizer/vocabulary-worker.js";
import { gemmaVocabulary } from "../../peers/gemma-vocabulary.js";
import { GEMMA_VOCABULARY_SEED } from "../../peers/record-gemma-tokens.js";
import { Dice } from "../../support/dice.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const LIMIT_MS = 30_000;
const DIST = new URL("../../../dist/", import.meta.url);
const FABLE = fileURLToPath(new URL("../../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
const QWEN = fileURLToPath(new URL("../../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf", import.meta.url));

/** Equal tokens, an empty one, and merges of texts that are no tokens. */
const ODD_ENTRIES: readonly GgufEntry[] = [
  str("tokenizer.ggml.model", "gpt2"),
  str("tokenizer.ggml.pre", "gpt-2"),
  arr("tokenizer.ggml.tokens", "string", ["<|endoftext|>", "", "he", "he", "hello", ...SPELLING_OF_BYTE.map(String)]),
  arr("tokenizer.ggml.merges", "string", ["h e", "l l", "l l", "he ll", "hell o", "é é", "Ġ w"]),
];
const BROKEN_ENTRIES: readonly GgufEntry[] = [
  ...ODD_ENTRIES.slice(0, -1),
  arr("tokenizer.ggml.merges", "string", ["h e", "nonsense", "l l"]),
];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

async function written(name: string, metadata: readonly GgufEntry[]): Promise<string> {
  const path = folder.file(`${name}.gguf`);
  await writeGguf(path, { metadata, tensors: [] });
  return path;
}

/** What a thread has decoded for an open file, with the thread's module or another. */
async function decoded(path: string, file: GgufFile, module?: URL, limitMs = LIMIT_MS) {
  using thread = new VocabularyWorker(path, limitMs, module);
  await thread.settled;
  expect(thread.isPending).toBe(false);
  return thread.take(fileIdentity(file));
}

const script = (text: string): URL => new URL(`data:text/javascript,${encodeURIComponent(text)}`);

/** Fails if the tokenizer had to decode the vocabulary itself. */
function builtFrom(file: GgufFile, tables: Awaited<ReturnType<typeof decoded>>): Tokenizer {
  expect(tables).toBeDefined();
  return new TokenizerBuilder(file.metadata, () => tables).finish();
}

function expectEqualTokenizers(one: Tokenizer, other: Tokenizer): void {
  const properties = ({
    vocabularySize,
    longestTokenBytes,
    bosToken,
    eosToken,
    addsBos,
    endOfGeneration,
  }: Tokenizer) => [[vocabularySize, longestTokenBytes, bosToken, eosToken, addsBos], [...endOfGeneration]];
  expect(properties(one)).toEqual(properties(other));
  for (let id = 0; id < one.vocabularySize; id += 7) {
    expect(one.tokenText(id)).toBe(other.tokenText(id));
    expect(one.tokenBytes(id)).toEqual(other.tokenBytes(id));
  }
  const words = fc.constantFrom("Once upon", " hello", "<|endoftext|>", "he", "ll", "é", "\n\n", "  ", "狐", "x1");
  const text = fc.array(fc.oneof(words, fc.string({ unit: "binary", maxLength: 20 })), { maxLength: 20 });
  fc.assert(
    fc.property(text, fc.boolean(), (parts, parseSpecial) => {
      const joined = parts.join("");
      expect([...one.encode(joined, { parseSpecial })]).toEqual([...other.encode(joined, { parseSpecial })]);
    }),
  );
}

describe("a vocabulary that a thread decodes", () => {
  it.each([
    ["byte-level BPE", () => FABLE],
    ["Qwen's BPE", () => QWEN],
    ["SentencePiece", () => written("gemma", gemmaVocabulary(new Dice(GEMMA_VOCABULARY_SEED)))],
    ["BPE with symbols that are no tokens", () => written("odd", ODD_ENTRIES)],
  ])("makes the same tokenizer: %s", async (_, pathOf) => {
    const path = await pathOf();
    using file = await GgufFile.open(path, { mapping: "off" });
    expectEqualTokenizers(builtFrom(file, await decoded(path, file)), createTokenizer(file.metadata));
  });

  it("is given once, because its owner changes it", async () => {
    using file = await GgufFile.open(FABLE, { mapping: "off" });
    using thread = new VocabularyWorker(FABLE, LIMIT_MS);
    await thread.settled;
    expect(thread.take(fileIdentity(file))).toBeDefined();
    expect(thread.take(fileIdentity(file))).toBeUndefined();
  });

  it("is found without a turn of the event loop once it is there", async () => {
    using file = await GgufFile.open(FABLE, { mapping: "off" });
    using thread = new VocabularyWorker(FABLE, LIMIT_MS);
    const before = performance.now();
    while (thread.isPending && performance.now() - before < LIMIT_MS);
    expect(thread.take(fileIdentity(file))).toBeDefined();
  });

  it("is not taken for a file that has been replaced or changed", async () => {
    const path = folder.file("replaced.gguf");
    copyFileSync(QWEN, path);
    const tables = async (): Promise<unknown> => {
      using file = await GgufFile.open(path, { mapping: "off" });
      appendFileSync(path, "more");
      return await decoded(path, file);
    };
    expect(await tables()).toBeUndefined();
    using other = await GgufFile.open(FABLE, { mapping: "off" });
    expect(await decoded(QWEN, other)).toBeUndefined();
  });

  it("is not used if its length is not the file's", async () => {
    using file = await GgufFile.open(FABLE, { mapping: "off" });
    using other = await GgufFile.open(QWEN, { mapping: "off" });
    const tables = await decoded(QWEN, other);
    const tokenizer = new TokenizerBuilder(file.metadata, () => tables).finish();
    expectEqualTokenizers(tokenizer, createTokenizer(file.metadata));
  });
});

describe("a thread that gives no vocabulary", () => {
  it.each([
    ["cannot be loaded", new URL("missing.js", DIST)],
    ["throws", script(`throw new Error("broken")`)],
    ["ends without an answer", script("")],
    ["exceeds its memory", script("const all = []; for (;;) all.push({ at: all.length });")],
  ])("leaves it to the main thread: one that %s", async (_, module) => {
    using file = await GgufFile.open(FABLE, { mapping: "off" });
    const tables = await decoded(FABLE, file, module);
    expect(tables).toBeUndefined();
    expect(new TokenizerBuilder(file.metadata, () => tables).finish().encode("Once")).toEqual(
      createTokenizer(file.metadata).encode("Once"),
    );
  });

  it("is waited for within its limit only, and not at all after it was given up", async () => {
    using file = await GgufFile.open(FABLE, { mapping: "off" });
    expect(await decoded(FABLE, file, script("for (;;);"), 100)).toBeUndefined();
    using thread = new VocabularyWorker(FABLE, LIMIT_MS, script("for (;;);"));
    thread.giveUp();
    await thread.settled;
    expect(thread.take(fileIdentity(file))).toBeUndefined();
  });

  it("rejects an invalid vocabulary with the main thread's error", async () => {
    const path = await written("broken", BROKEN_ENTRIES);
    using file = await GgufFile.open(path, { mapping: "off" });
    const tables = await decoded(path, file);
    expect(tables).toBeUndefined();
    const errorOf = (make: () => unknown): unknown => {
      try {
        return make();
      } catch (error) {
        return error;
      }
    };
    const own = errorOf(() => createTokenizer(file.metadata));
    expect(own).toMatchObject({ code: "GGUF_TOKENIZER" });
    expect(errorOf(() => new TokenizerBuilder(file.metadata, () => tables).finish())).toEqual(own);
  });

  it("is not even started for a file that is small or missing", () => {
    expect(VocabularyWorker.startFor(FABLE)).toBeUndefined();
    expect(VocabularyWorker.startFor(folder.file("none.gguf"))).toBeUndefined();
  });
});

describe("the thread of a vocabulary", () => {
  it.each([
    ["that has answered", "await thread.settled;"],
    ["that nobody waits for", ""],
    ["that was given up", "thread.giveUp();"],
  ])("keeps no process alive: one %s", (_, more) => {
    const program = `
      import { VocabularyWorker } from "${new URL("tokenizer/vocabulary-worker.js", DIST).href}";
      const thread = new VocabularyWorker(${JSON.stringify(FABLE)}, 10_000);
      ${more}
      console.log("done");
    `;
    const args = ["--input-type=module", "-e", program];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: "done\n", stderr: "" });
  });

  it("is one file that imports Node's modules alone", () => {
    const text = readFileSync(new URL("tokenizer/vocabulary-thread.js", DIST), "utf8");
    const imported = [...text.matchAll(/^(?:import|export) .* from "(?<name>[^"]+)"/gm)].map(
      ({ groups }) => groups?.["name"],
    );
    expect(imported.length).toBeGreaterThan(0);
    expect(imported.filter((name) => name?.startsWith("node:") !== true)).toEqual([]);
  });
});
