// What must hold for the repository as a whole: file lengths, total size, and no traces of one particular machine.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MOST_LINES = 300;
const MOST_BYTES = 40_000_000;
const LONG_BY_NATURE = /\.test\.ts$|-test\.cpp$|-tables?\.ts$|^test\/fixtures\//;
const BINARY = /\.(?:gguf|png|jpg|ico|woff2)$/;

/** Tracked files and those about to be; undefined without git or a checkout, as in an unpacked archive. */
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
    // Spelled in pieces, so that this file passes its own test.
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
    // Text that is put in may be the reason.
    expect(skips.filter(({ title }) => !/\([^()]|\$\{/.test(title))).toEqual([]);
  });

  it("names every source file and its role in ARCHITECTURE.md, and no other", () => {
    const sources = all.filter((name) => /^src\/.*\.ts$/.test(name) && !/\.test\.ts$|\/testing\//.test(name));
    const named = architectureSections().flatMap((section) => {
      const folder = /^`([\w/-]+\/)`/.exec(section)?.[1] ?? "src/";
      if (!folder.startsWith("src/")) return [];
      return [...section.matchAll(/^\| `([\w/.-]+\.ts)` \| \S/gm)].map(([, file]) => folder + file);
    });
    expect(named.toSorted()).toEqual(sources.toSorted());
  });

  it("names every unit of the addon likewise", () => {
    const sources = all.filter((name) => /^native\/cpu\/(?:binding|engine|kernels)\/.*\.(?:h|cpp)$/.test(name));
    const units = new Set(sources.map((name) => name.replace("native/cpu/", "").replace(/\.\w+$/, "")));
    const section = architectureSections().find((text) => text.startsWith(NATIVE_SECTION)) ?? "";
    const named = [...section.matchAll(/^\| `((?:binding|engine|kernels)\/[\w/*-]+)` \| \S/gm)].map(([, unit]) => unit);
    const covers = (pattern: string, unit: string): boolean =>
      pattern.endsWith("*") ? unit.startsWith(pattern.slice(0, -1)) : unit === pattern;
    expect([...units].filter((unit) => !named.some((pattern) => covers(pattern, unit)))).toEqual([]);
    expect(named.filter((pattern) => ![...units].some((unit) => covers(pattern, unit)))).toEqual([]);
  });

  it("names every kernel file and every unit of the emulator likewise", () => {
    const kernels = all.filter((name) => /^kernels\/./.test(name)).map((name) => name.replace("kernels/", ""));
    expect(kernels).toContain("portable.h");
    expect(rowsOf("`kernels/`").toSorted()).toEqual(kernels.toSorted());
    const emulator = all.filter((name) => /^test\/hip-emulator\/.*\.(?:h|cpp)$/.test(name));
    const units = new Set(emulator.map((name) => name.replace("test/hip-emulator/", "").replace(/\.\w+$/, "")));
    expect(rowsOf("`test/hip-emulator/`").toSorted()).toEqual([...units].toSorted());
  });

  it("rejects a kernel whose head does not tell its versions", () => {
    const sources = all.filter((name) => /^kernels\/.*\.hip$/.test(name));
    const heads = sources.map((name) => ({ name, head: /^(?:\/\/.*\n)+/.exec(read(name))?.[0] ?? "" }));
    expect(heads.filter(({ head }) => !/^\/\/ +v1\b/m.test(head)).map(({ name }) => name)).toEqual([]);
  });
});

const NATIVE_SECTION = "`native/cpu/`";

/** What stands in the first column of the section that begins so. */
function rowsOf(start: string): readonly string[] {
  const section = architectureSections().find((text) => text.startsWith(start)) ?? "";
  return [...section.matchAll(/^\| `([\w.-]+)` \| \S/gm)].map(([, name]) => name);
}

function architectureSections(): readonly string[] {
  return read("ARCHITECTURE.md").split(/^### /m).slice(1);
}
