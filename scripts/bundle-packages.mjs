// Bundles files of dist/ with the few functions that they use of large packages, so that these packages need not be
// installed. Their licences, and those of the packages in the chat page, are kept in dist/THIRD-PARTY-NOTICES.

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire, isBuiltin } from "node:module";
import { join } from "node:path";
import { ScriptError } from "./tool.mjs";

/** Each re-exports names of one package and nothing else. */
const BUNDLED_FILES = [join("hub", "hub-client"), join("server", "http", "prometheus")];
/** Node's own modules as imports: CommonJS code would call `require`, which ES modules and users' bundles lack. */
const IMPORTED_BUILTINS = {
  name: "imported-builtins",
  setup(build) {
    build.onResolve({ filter: /^[\w:/]+$/ }, ({ path, kind }) =>
      kind === "require-call" && isBuiltin(path)
        ? { path: path.replace(/^node:/, ""), namespace: "builtin" }
        : undefined,
    );
    build.onLoad({ filter: /./, namespace: "builtin" }, ({ path }) => ({
      contents: `export * from "node:${path}"; export { default } from "node:${path}";`,
    }));
  },
};

/** The folder of the package that a module belongs to, relative to the checkout; undefined for our own. */
function packageOf(path) {
  const match = /(?:^|\/)(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(path.replaceAll("\\", "/"));
  return match?.[1];
}

/** The folders of the packages that these modules belong to, in order, each once. */
export function packagesOf(modules) {
  return [...new Set(modules.map(packageOf).filter((folder) => folder !== undefined))].toSorted();
}

/**
 * @param {string} root the checkout
 * @param {string} dist the compiled sources
 * @returns {Promise<string[]>} the folders of the bundled packages
 */
export async function bundlePackages(root, dist) {
  const { build } = createRequire(join(root, "package.json"))("esbuild");
  const files = BUNDLED_FILES.filter((name) => existsSync(join(dist, `${name}.js`)));
  const modules = [];
  for (const name of files) {
    const file = join(dist, `${name}.js`);
    try {
      const { metafile } = await build({
        absWorkingDir: root,
        entryPoints: [file],
        outfile: file,
        allowOverwrite: true,
        bundle: true,
        minifySyntax: true,
        format: "esm",
        platform: "node",
        target: "node20",
        // For progress on a terminal, which is not used.
        external: ["cli-progress"],
        plugins: [IMPORTED_BUILTINS],
        legalComments: "none",
        logLevel: "silent",
        metafile: true,
      });
      modules.push(...Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs)));
    } catch (error) {
      throw new ScriptError(`${name} cannot be bundled; dist/ is as it was`, { tail: String(error) });
    }
    // It would name the types of a package that is not installed.
    rmSync(join(dist, `${name}.d.ts`), { force: true });
  }
  return packagesOf(modules);
}

/** What a package contains of others, if its own licence does not say so. */
const CONTAINED = {
  unpdf: "It contains PDF.js (https://github.com/mozilla/pdf.js), Copyright Mozilla Foundation, Apache License 2.0.",
};

/** Writes the licences of packages whose code is in dist/. */
export function writeNotices(root, dist, folders) {
  const texts = folders.map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file === undefined ? "" : `\n${readFileSync(join(root, folder, file), "utf8").trim()}\n`;
    const contained = CONTAINED[name] === undefined ? "" : `\n${CONTAINED[name]}\n`;
    return `${name} ${version} (${license})\n${text}${contained}`;
  });
  if (texts.length === 0) return;
  const head = "Parts of these packages are in the files of this folder.\n";
  writeFileSync(join(dist, "THIRD-PARTY-NOTICES"), [head, ...texts].join("\n----\n\n"));
}
