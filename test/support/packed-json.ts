// Recorded answers as gzipped JSON: long lists of numbers, which nobody reads and which a repository should not be full of.

import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

export function readPacked(file: URL): unknown {
  return JSON.parse(gunzipSync(readFileSync(file)).toString("utf8"));
}

export function writePacked(file: URL, text: string): void {
  writeFileSync(file, gzipSync(text, { level: 9 }));
}
