// Refuses, as identifiers and file names, the words that docs/glossary.md replaces by those of the field.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { identifiersOf, wordsOf } from "./words/identifiers.js";
import { EXCEPTIONS, RULES } from "./words/vocabulary.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDERS = ["src", "kernels", "native", "test"];
const SOURCE = /\.(?:ts|mts|mjs|js|h|hpp|cpp|c|hip)$/;
/** Generated or installed files, and the words themselves. */
const SKIPPED = /(?:^|\/)(?:node_modules|build|fixtures)\/|^test\/project\/(?:words\/|vocabulary\.test)/;

const files = FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && SOURCE.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length).replaceAll("\\", "/")),
).filter((path) => !SKIPPED.test(path));

/** The field's word instead of a name, or undefined if the name may stay. */
function replacement(name: string, path: string): string | undefined {
  if (Object.hasOwn(EXCEPTIONS, name)) return undefined;
  const words = wordsOf(name);
  return RULES.find(
    ({ pattern, folders, except = [] }) =>
      pattern.test(words) &&
      (folders === undefined || folders.some((folder) => path.startsWith(folder))) &&
      !except.some(([place]) => path.startsWith(place)),
  )?.instead;
}

function faultsOf(path: string): string[] {
  const names = new Map<string, number>();
  for (const part of path.split("/")) names.set(part.replace(/\.[a-z.]+$/, ""), 0);
  // Text in tests is data; in src a word in quotation marks is often the name of a case.
  for (const { name, line, isText } of identifiersOf(
    readFileSync(join(ROOT, path), "utf8"),
    /\.[mc]?[tj]s$/.test(path),
  ))
    if ((!isText || path.startsWith("src/")) && !names.has(name)) names.set(name, line);
  return [...names].flatMap(([name, line]) => {
    const instead = replacement(name, path);
    return instead === undefined ? [] : [`${path}:${line} ${name} → ${instead}`];
  });
}

describe("the vocabulary", () => {
  it("finds identifiers in TypeScript, and neither text nor comments", () => {
    const text = 'const a1 = `x ${b({ c: "no no" })} y`; // shelf\nif (/shelf/.test(d) || e / f / 2) g("shelf");';
    const names = identifiersOf(text, true).map(({ name, isText }) => (isText ? `"${name}"` : name));
    expect(names).toEqual(["const", "a1", "b", "c", "if", "test", "d", "e", "f", "g", '"shelf"']);
  });

  it("finds identifiers in C++", () => {
    const names = identifiersOf('#include "row.h"\nint turn_pair(int x) { return x / 2; } /* shelf */', false);
    expect(names.map(({ name }) => name)).toEqual(["include", "int", "turn_pair", "int", "x", "return", "x"]);
  });

  it("splits names into words", () => {
    expect(["MOST_FEW_ROWS", "promptTokensBesideWriters", "isGPUObstacle", "mask-watch"].map(wordsOf)).toEqual([
      "most few rows",
      "prompt tokens beside writers",
      "is gpu obstacle",
      "mask watch",
    ]);
  });

  it("rejects names in words that are not the field's", () => {
    expect(files).toContain("src/errors.ts");
    expect(files.some((path) => path.startsWith("kernels/"))).toBe(true);
    expect(files.flatMap(faultsOf)).toEqual([]);
  });

  it("rejects exceptions that no file needs", () => {
    const all = new Set(
      files.flatMap((path) => identifiersOf(readFileSync(join(ROOT, path), "utf8"), true).map(({ name }) => name)),
    );
    expect(Object.keys(EXCEPTIONS).filter((name) => !all.has(name))).toEqual([]);
    const places = RULES.flatMap(({ except = [] }) => except.map(([place]) => place));
    expect(places.filter((place) => !files.some((path) => path.startsWith(place)))).toEqual([]);
  });
});
