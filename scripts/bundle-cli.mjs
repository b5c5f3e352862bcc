// Bundles the command line into a few chunks, so that a start opens ten files instead of two hundred, and into one file
// the worker thread that a start waits for. The bundles replace dist/cli and the thread's module; all other compiled files
// stay, for the library, for other threads and for child processes. Invariant: `import.meta.url` in bundled code is the
// URL of the file it came from, so all lookups of files still work.

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, relative, sep } from "node:path";
import { ScriptError } from "./tool.mjs";

const URL_OF_FILE = "import.meta.url";
/** The module of the thread that decodes a vocabulary, without its extension. */
const VOCABULARY_THREAD = "tokenizer/vocabulary-thread";
const OPTIONS = {
  allowOverwrite: true,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  packages: "external",
  legalComments: "none",
  logLevel: "silent",
};

/** @param {string} folder of the bundle, from which the URLs of its sources are written */
function originalUrls(folder) {
  return {
    name: "original-urls",
    setup(build) {
      build.onLoad({ filter: /\.js$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!text.includes(URL_OF_FILE)) return { contents: text, loader: "js" };
        const place = JSON.stringify(relative(folder, path).split(sep).join("/"));
        return { contents: text.replaceAll(URL_OF_FILE, `new URL(${place}, ${URL_OF_FILE}).href`), loader: "js" };
      });
    },
  };
}

/**
 * @param {string} root the checkout
 * @param {string} dist the compiled sources
 */
export async function bundleCommandLine(root, dist) {
  const { build } = createRequire(join(root, "package.json"))("esbuild");
  const folder = join(dist, "cli");
  let written;
  try {
    const { metafile } = await build({
      ...OPTIONS,
      entryPoints: { main: join(folder, "main.js") },
      outdir: folder,
      splitting: true,
      chunkNames: "chunk-[hash]",
      plugins: [originalUrls(folder)],
      metafile: true,
    });
    await build({
      ...OPTIONS,
      entryPoints: { [VOCABULARY_THREAD]: join(dist, `${VOCABULARY_THREAD}.js`) },
      outdir: dist,
      plugins: [originalUrls(join(dist, dirname(VOCABULARY_THREAD)))],
    });
    written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  } catch (error) {
    throw new ScriptError("the command line cannot be bundled; dist/ is as it was", { tail: String(error) });
  }
  for (const name of readdirSync(folder))
    if (!written.has(name)) rmSync(join(folder, name), { recursive: true, force: true });
}
