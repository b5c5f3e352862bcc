// Bundles test files with all that they import into one folder of an installed package, where a process on Windows runs
// them: `import.meta.url` is the place that a source would have in that package.

import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const URL_OF_FILE = "import.meta.url";

const originalUrls: Plugin = {
  name: "original-urls",
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const place = JSON.stringify(`../${relative(ROOT, path)}`);
      return { contents: text.replaceAll(URL_OF_FILE, `new URL(${place}, ${URL_OF_FILE}).href`), loader: "ts" };
    });
  },
};

/**
 * @param folder of the installed package
 * @param files of tests, relative to the checkout
 * @returns the path of the program, and the names of the tests for it
 */
export async function bundleTests(
  folder: string,
  files: readonly string[],
): Promise<{ readonly program: string; readonly names: readonly string[] }> {
  const named = files.map((file) => [file.replace(/\.ts$/, "").replaceAll("/", "-"), join(ROOT, file)] as const);
  const bundled = join(folder, "bundled-tests");
  await build({
    entryPoints: { "run-tests": join(ROOT, "test/windows/run-tests.ts"), ...Object.fromEntries(named) },
    outdir: bundled,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    // Top-level names are used in messages of assertions.
    keepNames: true,
    alias: { vitest: join(ROOT, "test/windows/vitest-stand-in.ts") },
    external: ["koffi"],
    banner: { js: 'import { createRequire as create } from "node:module"; const require = create(import.meta.url);' },
    plugins: [originalUrls],
    logLevel: "silent",
  });
  return { program: join(bundled, "run-tests.js"), names: named.map(([name]) => name) };
}
