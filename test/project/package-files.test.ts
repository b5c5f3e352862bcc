// The files of the package, as npm lists them: everything that runs, nothing that only tests need.

import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { kernelFiles, loadKernelSource } from "../../src/backends/gpu/kernels/kernel-source.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Without building anything: `prepack` is a script. */
function packedFiles(): readonly string[] {
  const options = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const [{ files }] = JSON.parse(
    execFileSync("npm", options, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }),
  ) as readonly {
    readonly files: readonly { readonly path: string }[];
  }[];
  return files.map(({ path }) => path);
}

it("carries every kernel and header, and nothing of tests or benchmarks", () => {
  const files = packedFiles();
  const kernels = readdirSync(join(ROOT, "kernels"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:h|hip)$/.test(name))
    .map((name) => `kernels/${name.replaceAll(sep, "/")}`);
  expect(kernels).toContain("kernels/device/portable.h");
  expect(files.filter((path) => path.startsWith("kernels/")).toSorted()).toEqual(kernels.toSorted());
  expect(files).toContain("docs/environment.md");
  expect(files.filter((path) => /^(?:test|bench|lint)\/|\.test\.\w+$/.test(path))).toEqual([]);
});

it("has kernels that are whole: each file assembles from what is in its folder", () => {
  const names = kernelFiles();
  expect(names.length).toBeGreaterThan(10);
  const empty = names
    .map((name) => loadKernelSource(name))
    .filter(({ kernelNames, layouts }) => kernelNames.length === 0 || layouts.size === 0);
  expect(empty.map(({ name }) => name)).toEqual([]);
});
