// What opening a model by path loads: none of the code that finds and downloads models, and not Hugging Face's client.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const SOURCES = fileURLToPath(new URL("../../src/", import.meta.url));
/** Files without imports. */
const SMALL = ["hub/model-name.ts", "hub/model-scheme.ts"];
/** Imports and exports that run code: those of types alone are erased. */
const STATIC = /^(?:import|export) (?!type\b)(?:[^;]*? from )?"(?<target>[^"]+)";$/gm;

/** The files and packages that importing a file loads at once. */
function loadedBy(path: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const { groups } of readFileSync(path, "utf8").matchAll(STATIC)) {
    const target = groups?.["target"] ?? "";
    if (!target.startsWith(".")) seen.add(target);
    else loadedBy(join(dirname(path), target.replace(/\.js$/, ".ts")), seen);
  }
  return seen;
}

it.each(["index.ts", "model/load-model.ts", "cli/model-file.ts", "server/index.ts"])(
  "src/%s loads no hub code",
  (file) => {
    const loaded = [...loadedBy(join(SOURCES, file))];
    expect(loaded.length).toBeGreaterThan(10);
    expect(loaded).not.toContain("@huggingface/hub");
    const hub = loaded.filter((path) => existsSync(path)).map((path) => relative(SOURCES, path));
    expect(hub.filter((path) => path.startsWith("hub/") && !SMALL.includes(path))).toEqual([]);
  },
);

it("finds the imports of code that does load it", () => {
  expect(loadedBy(join(SOURCES, "hub/resolve-model.ts")).has(join(SOURCES, "hub/http-client.ts"))).toBe(true);
});
