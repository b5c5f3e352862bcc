// Recorded answers as JSON, compressed by brotli: long lists of numbers, which nobody reads and which a repository should not be full of.

import { readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib";

export function readPacked(file: URL): unknown {
  return JSON.parse(brotliDecompressSync(readFileSync(file)).toString("utf8"));
}

/** A packed list with a value on each line. */
export function readPackedLines(file: URL): readonly unknown[] {
  const lines = brotliDecompressSync(readFileSync(file)).toString("utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as unknown);
}

export function writePacked(file: URL, text: string): void {
  const { BROTLI_PARAM_LGWIN, BROTLI_MAX_WINDOW_BITS, BROTLI_PARAM_SIZE_HINT } = constants;
  const bytes = Buffer.from(text, "utf8");
  const params = { [BROTLI_PARAM_LGWIN]: BROTLI_MAX_WINDOW_BITS, [BROTLI_PARAM_SIZE_HINT]: bytes.length };
  writeFileSync(file, brotliCompressSync(bytes, { params }));
}
