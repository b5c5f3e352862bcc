// What must hold for the repository as a whole: file lengths, total size, and no traces of one particular machine.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MOST_LINES = 340;
const MOST_BYTES = 40_000_000;
const LONG_BY_NATURE = /\.test\.ts$|-test\.cpp$|-tables?\.ts$|^test\/fixtures\//;
const BINARY = /\.(?:gguf|png|jpg|ico|woff2)$/;

/**
 * Tracked files and new ones that git does not ignore; undefined without git or a checkout, as in an unpacked archive.
 */
function listFiles(): string[] | undefined {
  if (!existsSync(join(ROOT, ".git"))) return undefined;
  const listing = spawnSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (listing.error !== undefined) return undefined;
  if (listing.status !== 0) throw new Error(`git ls-files failed: ${listing.stderr}`);
  return listing.stdout.split("\0").filter((name) => name !== "" && existsSync(join(ROOT, name)));
}

const files = listFiles();
const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");

describe.skipIf(files === undefined)("the repository (skipped without git or a checkout)", () => {
  const all = files ?? [];
  const texts = all.filter((name) => !BINARY.test(name) && !name.startsWith("test/fixtures/"));

  it("has files to look at", () => {
    expect(texts).toContain("src/errors.ts");
  });

  it(`rejects source files over ${MOST_LINES} lines, tables and tests aside`, () => {
    const sources = all.filter(
      (name) => /\.(?:ts|mts|cts|js|mjs|cpp|hpp|h|hip)$/.test(name) && !LONG_BY_NATURE.test(name),
    );
    const long = sources
      .map((name) => ({ name, lines: read(name).trimEnd().split("\n").length }))
      .filter(({ lines }) => lines > MOST_LINES);
    expect(long).toEqual([]);
  });

  it(`stays under ${MOST_BYTES / 1e6} MB`, () => {
    const sizeBytes = all.reduce((sum, name) => sum + statSync(join(ROOT, name)).size, 0);
    expect(sizeBytes).toBeLessThan(MOST_BYTES);
  });

  it("rejects paths and addresses that exist on one machine only", () => {
    // Split into parts, so that this file passes its own test.
    const traces = [
      new RegExp(String.raw`(?<![\w.~-])/(?:work|root|home/\w+)` + "/"),
      new RegExp("https?://" + String.raw`(?:registry\.|localhost:4873)`),
      new RegExp('"resolved"' + String.raw`\s*:\s*"http`),
    ];
    const found = texts.flatMap((name) => {
      const text = read(name);
      return traces.filter((trace) => trace.test(text)).map((trace) => `${name}: ${trace.exec(text)?.[0]}`);
    });
    expect(found).toEqual([]);
  });

  it("rejects a file that does not open with a comment on its role", () => {
    const sources = all.filter(
      (name) => /^(?:src|bench|scripts|lint|test)\/.*\.(?:ts|js|mjs)$/.test(name) && !name.endsWith(".test.ts"),
    );
    expect(sources.filter((name) => !/^(?:#!.*\n)?\/[/*]/.test(read(name)))).toEqual([]);
  });

  it("rejects a skip that does not say why in its title", () => {
    const skips = all
      .filter((name) => name.endsWith(".test.ts"))
      .flatMap((name) =>
        [...read(name).matchAll(/\.(?:skipIf|runIf)\([^]*?\)\(\s*(?<title>"[^"\n]*"|`[^`\n]*`)/g)].map(
          ({ groups }) => ({ name, title: groups?.["title"] ?? "" }),
        ),
      );
    expect(skips.length).toBeGreaterThan(20);
    // Inserted text may be the reason.
    expect(skips.filter(({ title }) => !/\([^()]|\$\{/.test(title))).toEqual([]);
  });

  it("keeps ARCHITECTURE.md short, with every part of src/ in it", () => {
    const text = read("ARCHITECTURE.md");
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_ARCHITECTURE_BYTES);
    const parts = new Set(all.flatMap((name) => /^src\/([\w-]+)\//.exec(name)?.[1] ?? []));
    expect(parts).toContain("gguf");
    expect([...parts].filter((part) => !new RegExp(`\\b${part}\\b`).test(text))).toEqual([]);
  });

  it("rejects a kernel whose head does not tell its versions", () => {
    const sources = all.filter((name) => /^kernels\/.*\.hip$/.test(name));
    const heads = sources.map((name) => ({ name, head: /^(?:\/\/.*\n)+/.exec(read(name))?.[0] ?? "" }));
    expect(heads.filter(({ head }) => !/^\/\/ +v1\b/m.test(head)).map(({ name }) => name)).toEqual([]);
  });
});

const MAX_ARCHITECTURE_BYTES = 12_288;
