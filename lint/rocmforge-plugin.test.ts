// Runs oxlint itself, with the project's own configuration, on small trees of bad and good files:
// proves that each rule is loaded, fires where it should and stays quiet where it should.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const folders: string[] = [];

interface Diagnostic {
  readonly code?: string;
  readonly message: string;
  readonly filename: string;
}

/** Lints a tree and returns `file rule` for every complaint of ours, sorted. */
function lint(files: Readonly<Record<string, string>>, startIn = "."): string[] {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-lint-"));
  folders.push(folder);
  for (const [name, text] of Object.entries({ "package.json": "{}", ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const oxlint = join(ROOT, "node_modules", "oxlint", "bin", "oxlint");
  const config = join(ROOT, ".oxlintrc.json");
  const result = spawnSync(process.execPath, [oxlint, "-c", config, "-f", "json"], {
    cwd: join(folder, startIn),
    encoding: "utf8",
  });
  const { diagnostics } = JSON.parse(result.stdout) as { diagnostics: Diagnostic[] };
  const complaints = diagnostics.filter(({ code }) =>
    /^rocmforge\(|max-lines|no-explicit-any|no-cycle/.test(code ?? ""),
  );
  expect(result.status).toBe(complaints.length > 0 || diagnostics.length > 0 ? 1 : 0);
  return complaints.map(({ filename, code }) => `${filename} ${code}`).toSorted();
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe("import-order", () => {
  const ORDER = "rocmforge(import-order)";

  it("rejects an upward import in each of its spellings", () => {
    const spellings = {
      "src/gguf/static.ts": `import { step } from "../engine/engine.js"; step();`,
      "src/gguf/type.ts": `import type { Step } from "../engine/engine.js"; export type Mine = Step;`,
      "src/gguf/effect.ts": `import "../engine/engine.js";`,
      "src/gguf/export-all.ts": `export * from "../engine/engine.js";`,
      "src/gguf/export-named.ts": `export { step } from "../engine/engine.js";`,
      "src/gguf/dynamic.ts": `export const step = await import("../engine/engine.js");`,
      "src/gguf/template.ts": "export const step = await import(`../engine/engine.js`);",
      "src/gguf/computed.ts": `export const load = (name: string) => import(name);`,
      "src/gguf/import-type.ts": `export type Step = import("../engine/engine.js").Step;`,
      "src/gguf/own-name.ts": `import { loadModel } from "rocmforge"; loadModel();`,
    };
    expect(lint(spellings)).toEqual(
      Object.keys(spellings)
        .map((file) => `${file} ${ORDER}`)
        .toSorted(),
    );
  });

  it("stays quiet on downward imports, packages, tests and other folders", () => {
    expect(
      lint({
        "src/engine/engine.ts": `import { read } from "../gguf/reader.js"; import { join } from "node:path"; read(join("a"));`,
        "src/backends/registry.ts": `export const reference = () => import("./reference/backend.js");`,
        "src/gguf/reader.test.ts": `import { step } from "../engine/engine.js"; step();`,
        "test/whole.ts": `import { step } from "../src/engine/engine.js"; step();`,
      }),
    ).toEqual([]);
  });

  it("holds when the linter is started inside a folder", () => {
    const files = { "src/gguf/reader.ts": `export * from "../plan/execution-plan.js";` };
    expect(lint(files, "src/gguf")).toEqual([`reader.ts ${ORDER}`]);
  });
});

describe("koffi-in-ffi", () => {
  it("rejects koffi anywhere but in ffi.ts", () => {
    const KOFFI = "rocmforge(koffi-in-ffi)";
    expect(
      lint({
        "src/gguf/mapping.ts": `import koffi from "koffi"; koffi.load("c");`,
        "src/gguf/lazy.ts": `export const koffi = () => import("koffi");`,
        "src/gguf/required.cts": `export const load = () => require("koffi/index.js");`,
        "src/gguf/ffi.ts": `import koffi from "koffi"; koffi.load("c");`,
        "src/backends/gpu/drivers/hip/ffi.ts": `export const koffi = () => import("koffi");`,
      }),
    ).toEqual([`src/gguf/lazy.ts ${KOFFI}`, `src/gguf/mapping.ts ${KOFFI}`, `src/gguf/required.cts ${KOFFI}`]);
  });
});

describe("architecture-names", () => {
  const NAMES = "rocmforge(architecture-names)";

  it("rejects decisions by an architecture's name outside src/architectures", () => {
    const bad = {
      "src/plan/equal.ts": `export const isLlama = (name: string) => name === "llama";`,
      "src/plan/swapped.ts": `export const other = (name: string) => "qwen3" !== name;`,
      "src/plan/switch.ts": `export function f(name: string) { switch (name) { case "glm4": return 1; default: return 0; } }`,
      "src/plan/list.ts": `export const known = (name: string) => ["llama", "other"].includes(name);`,
      "src/plan/start.ts": `export const family = (name: string) => name.startsWith("qwen2");`,
      "src/tokenizer/arch.ts": `export const f = (architecture: string) => architecture === "llama";`,
    };
    expect(lint(bad)).toEqual(
      Object.keys(bad)
        .map((file) => `${file} ${NAMES}`)
        .toSorted(),
    );
  });

  it("stays quiet in src/architectures, in tests, for vocabularies and for other words", () => {
    expect(
      lint({
        "src/architectures/detect.ts": `export const f = (name: string) => name === "llama";`,
        "src/plan/plan.test.ts": `export const f = (name: string) => name === "llama";`,
        "src/tokenizer/model.ts": `export const f = (model: string) => model === "llama" || model === "qwen2";`,
        "src/plan/plan.ts": `export const f = (name: string) => name === "output.weight";`,
      }),
    ).toEqual([]);
  });
});

describe("configured rules", () => {
  it("rejects any, a file over 340 lines and a cycle, and lets tables and tests be long", () => {
    const long = "export {};\n".repeat(341);
    expect(
      lint({
        "src/quant/loose.ts": `export const f = (value: any) => String(value);`,
        "src/quant/long.ts": long,
        "src/quant/long-table.ts": long,
        "src/quant/long.test.ts": long,
        "src/quant/egg.ts": `import { hen } from "./hen.js"; export const egg = () => hen;`,
        "src/quant/hen.ts": `import { egg } from "./egg.js"; export const hen = () => egg;`,
      }),
    ).toEqual([
      "src/quant/egg.ts import(no-cycle)",
      "src/quant/hen.ts import(no-cycle)",
      "src/quant/long.ts eslint(max-lines)",
      "src/quant/loose.ts typescript(no-explicit-any)",
    ]);
  });
});
