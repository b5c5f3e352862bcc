// Where the module of a thread is. A thread runs what is built: beside the file that asks when that is built, too,
// otherwise (tests run from the sources) in dist/, and from a bundle in the installed package's dist/.

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { PackageError } from "../errors.js";
import { BUNDLER_ADVICE, isBundled, packageFile } from "../package-files.js";

const SOURCES = "/src/";

/** `builtFile(import.meta.url, "./render-thread.js")` */
export function builtFile(from: string, relative: `./${string}.js`): URL {
  if (isBundled()) return installedFile(relative);
  const beside = new URL(relative, from);
  if (!from.endsWith(".ts")) return beside;
  const place = beside.href.lastIndexOf(SOURCES);
  return new URL(`${beside.href.slice(0, place)}/dist/${beside.href.slice(place + SOURCES.length)}`);
}

/** In a bundle nothing tells the folder that a file came from; the modules of threads have names of their own. */
function installedFile(relative: string): URL {
  const dist = packageFile("dist");
  const found = readdirSync(dist, { recursive: true, encoding: "utf8" }).find(
    (path) => basename(path) === basename(relative),
  );
  if (found === undefined)
    throw new PackageError("PACKAGE_BUNDLED", `[worker] ${relative} is not in ${dist}; ${BUNDLER_ADVICE}`);
  return pathToFileURL(join(dist, found));
}
