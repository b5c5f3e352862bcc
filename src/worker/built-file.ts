// Locates the built module of a worker thread: beside the calling file if that is built, otherwise (tests run from the
// sources) in dist/, and from a bundle in the installed package's dist/.

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { PackageError } from "../errors.js";
import { BUNDLER_ADVICE, isBundled, packageFile } from "../package-files.js";

const SOURCES = "/src/";

/** The URL of a worker's built module: `builtFile(import.meta.url, "./render-thread.js")`. */
export function builtFile(from: string, relative: `./${string}.js`): URL {
  if (isBundled()) return installedFile(relative);
  const beside = new URL(relative, from);
  if (!from.endsWith(".ts")) return beside;
  const place = beside.href.lastIndexOf(SOURCES);
  return new URL(`${beside.href.slice(0, place)}/dist/${beside.href.slice(place + SOURCES.length)}`);
}

/** A bundle does not preserve the folder of a file, so worker modules have unique names. */
function installedFile(relative: string): URL {
  const dist = packageFile("dist");
  const found = readdirSync(dist, { recursive: true, encoding: "utf8" }).find(
    (path) => basename(path) === basename(relative),
  );
  if (found === undefined)
    throw new PackageError("PACKAGE_BUNDLED", `[worker] ${relative} is not in ${dist}; ${BUNDLER_ADVICE}`);
  return pathToFileURL(join(dist, found));
}
