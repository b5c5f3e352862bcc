// Where the module of a thread is. A thread runs what is built: beside the file that asks when that is built, too, and
// otherwise (tests run from the sources) in dist/.

const SOURCES = "/src/";

/** `builtFile(import.meta.url, "./render-thread.js")` */
export function builtFile(from: string, relative: `./${string}.js`): URL {
  const beside = new URL(relative, from);
  if (!from.endsWith(".ts")) return beside;
  const place = beside.href.lastIndexOf(SOURCES);
  return new URL(`${beside.href.slice(0, place)}/dist/${beside.href.slice(place + SOURCES.length)}`);
}
