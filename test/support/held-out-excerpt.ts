// A text of 60,000 characters that no model of the fixtures was trained on, kept compressed by brotli.

import { readFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";

const FILE = new URL("../fixtures/text/held-out-excerpt.txt.br", import.meta.url);

export function heldOutExcerpt(): string {
  return brotliDecompressSync(readFileSync(FILE)).toString("utf8");
}
