// Recorded answers as gzipped JSON: long lists of numbers, which nobody reads and which a repository should not be full of.

import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

export function readPacked(file: URL): unknown {
  return JSON.parse(gunzipSync(readFileSync(file)).toString("utf8"));
}

/** A packed list with a value on each line. */
export function readPackedLines(file: URL): readonly unknown[] {
  const lines = gunzipSync(readFileSync(file)).toString("utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as unknown);
}

export function writePacked(file: URL, text: string): void {
  writeFileSync(file, gzipSync(text, { level: 9 }));
}
