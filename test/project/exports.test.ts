// Refuses two exported declarations of one name in src/: a reader who searches for a name finds one thing.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../src/", import.meta.url));
const DECLARATION =
  /^export (?:declare )?(?:default )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let|enum) (?<name>[A-Za-z_$][\w$]*)/gm;

/** Names that several files declare on purpose, by the reason. */
const MEANT: Readonly<Record<string, string>> = {
  serve: "the library's function, and the command of the same name",
};

const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" })
  .map((path) => path.replaceAll("\\", "/"))
  .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !path.includes("/testing/"));

const declared = new Map<string, Set<string>>();
for (const path of files) {
  for (const { groups } of readFileSync(join(ROOT, path), "utf8").matchAll(DECLARATION)) {
    const name = groups?.["name"] ?? "";
    declared.set(name, (declared.get(name) ?? new Set()).add(path));
  }
}
const repeated = [...declared].filter(([, paths]) => paths.size > 1);

it("finds declarations to compare", () => {
  expect(declared.get("RocmForgeError")).toEqual(new Set(["errors.ts"]));
  expect(declared.size).toBeGreaterThan(500);
});

it("rejects two exported declarations of one name", () => {
  const unmeant = repeated.filter(([name]) => !Object.hasOwn(MEANT, name));
  expect(unmeant.map(([name, paths]) => `${name}: ${[...paths].join(", ")}`)).toEqual([]);
});

it("rejects names that are listed as meant and stand once", () => {
  const names = new Set(repeated.map(([name]) => name));
  expect(Object.keys(MEANT).filter((name) => !names.has(name))).toEqual([]);
});
