// Keeps docs/api in step with the types: every public name has a doc comment, every type in a public declaration can be
// imported, and the pages are what `npm run docs` writes.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDER = join(ROOT, "docs", "api");

interface Reference {
  readonly pages: ReadonlyMap<string, string>;
  readonly undocumented: readonly string[];
  readonly unexported: readonly string[];
}

const { apiReference } = (await import(join(ROOT, "scripts", "api-reference.mjs"))) as {
  apiReference(root: string): Reference;
};

describe("the API reference", () => {
  const { pages, undocumented, unexported } = apiReference(ROOT);

  it("has the names that the package exports", () => {
    const page = pages.get("rocmforge.md") ?? "";
    expect(page).toMatch(/^## loadModel$/m);
    expect(page).toMatch(/^## GgufError$/m);
    expect(page).not.toMatch(/#private|\bimport\(/);
  });

  it("rejects an exported name without a doc comment", () => {
    expect(undocumented).toEqual([]);
  });

  it("rejects a public declaration with a type that no entry point exports", () => {
    expect(unexported).toEqual([]);
  });

  it("is up to date (`npm run docs -- --references` rewrites it)", () => {
    expect(readdirSync(FOLDER).toSorted()).toEqual([...pages.keys()].toSorted());
    for (const [page, text] of pages) expect(readFileSync(join(FOLDER, page), "utf8")).toBe(text);
  });
});
