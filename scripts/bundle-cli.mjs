// Bundles the command line into a few chunks, so that a start opens ten files instead of two hundred. The bundle replaces
// dist/cli; the compiled files of other folders stay, for the library, for worker threads and for child processes.
// Invariant: `import.meta.url` in bundled code is the URL of the file it came from, so all lookups of files still work.

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, relative, sep } from "node:path";
import { ScriptError } from "./tool.mjs";

const URL_OF_FILE = "import.meta.url";

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
      entryPoints: { main: join(folder, "main.js") },
      outdir: folder,
      allowOverwrite: true,
      bundle: true,
      splitting: true,
      chunkNames: "chunk-[hash]",
      format: "esm",
      platform: "node",
      target: "node20",
      packages: "external",
      legalComments: "none",
      logLevel: "silent",
      plugins: [originalUrls(folder)],
      metafile: true,
    });
    written = new Set(Object.keys(metafile.outputs).map((path) => basename(path)));
  } catch (error) {
    throw new ScriptError("the command line cannot be bundled; dist/ is as it was", { tail: String(error) });
  }
  for (const name of readdirSync(folder))
    if (!written.has(name)) rmSync(join(folder, name), { recursive: true, force: true });
}
