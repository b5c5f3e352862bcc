// Builds the chat page (page/) with Vite: hashed file names, and beside each file its .br and .gz if these are smaller, so
// that the server compresses nothing.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { ScriptError } from "./tool.mjs";

const ENCODINGS = [
  [".br", (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })],
  [".gz", (bytes) => gzipSync(bytes, { level: 9 })],
];

/**
 * @param {string} root the checkout
 * @param {string} folder of the built page
 * @returns {Promise<string[]>} the modules in it
 */
export async function buildPage(root, folder) {
  const { build } = await import(pathToFileURL(createRequire(join(root, "package.json")).resolve("vite")).href);
  let output;
  try {
    output = await build({
      configFile: join(root, "page", "vite.config.mjs"),
      root: join(root, "page"),
      logLevel: "silent",
      build: { outDir: folder, emptyOutDir: true },
    });
  } catch (error) {
    throw new ScriptError("the chat page cannot be built; dist/ is as it was", { tail: String(error) });
  }
  for (const name of readdirSync(folder)) {
    const bytes = readFileSync(join(folder, name));
    for (const [suffix, compress] of ENCODINGS) {
      const compressed = compress(bytes);
      if (compressed.length < bytes.length) writeFileSync(join(folder, name + suffix), compressed);
    }
  }
  return [output].flat().flatMap(({ output: files }) => files.flatMap(({ moduleIds = [] }) => moduleIds));
}
