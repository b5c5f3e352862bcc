// Bundles test files with all that they import into one folder of an installed package, where a process on Windows runs
// them, and copies the models that they load: `import.meta.url` is the place that a source would have in that package.

import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const URL_OF_FILE = "import.meta.url";

/**
 * The conformance tests that run on Windows. files.test.ts is about processes that are started through pipes and about
 * truncated files, which Windows forbids; *.full.test.ts are the cases of others with longer texts.
 */
export const CONFORMANCE_FILES = readdirSync(join(ROOT, "test", "conformance"))
  .filter((name) => /^[^.]+\.test\.ts$/.test(name) && name !== "files.test.ts")
  .map((name) => `test/conformance/${name}`);

/** The folders with models that these tests load, at the same place in the package. */
const FIXTURES = ["test/fixtures/models", "test/fixtures/architectures"];

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
  for (const fixtures of FIXTURES) cpSync(join(ROOT, fixtures), join(folder, fixtures), { recursive: true });
  return { program: join(bundled, "run-tests.js"), names: named.map(([name]) => name) };
}
