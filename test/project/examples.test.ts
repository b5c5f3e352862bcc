// The files under examples/ as a user runs them: against the installed package, type-checked strictly, with the embedded
// model. Beside them: what the package loads when it is imported, and that it can be required.

import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PackedPackage, ROOT } from "./packed-package.js";

const MAX_EXAMPLE_LINES = 30;
const EXAMPLES = readdirSync(join(ROOT, "examples")).filter((name) => name.endsWith(".ts"));
const COMPILER = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const COMPILER_OPTIONS = ["--strict", "--module", "nodenext", "--target", "es2022"];
const EXPECTED: Readonly<Record<string, RegExp>> = {
  "batch.ts": /\n200 tales, \d+ tokens, \d+ tokens\/s in all\n$/,
  "embeddings.ts": /^50 embeddings of \d+ dimensions\nnearest: The raven sang at night\. \(1\.000\)\n$/,
};

/** Writes down every module that is loaded. */
const RECORDER = `data:text/javascript,${encodeURIComponent(`
import { register } from "node:module";
register("data:text/javascript," + encodeURIComponent(\`
import { appendFileSync } from "node:fs";
export async function load(url, context, next) {
  appendFileSync("loaded.txt", url + "\\\\n");
  return next(url, context);
}\`));
`)}`;

describe("the installed package", { timeout: 120_000 }, () => {
  let project: PackedPackage;
  beforeAll(() => {
    project = new PackedPackage();
    cpSync(join(ROOT, "examples"), project.file("examples"), { recursive: true });
    const sources = EXAMPLES.map((name) => join("examples", name));
    project.node(COMPILER, ...COMPILER_OPTIONS, "--outDir", "built", ...sources);
  }, 120_000);
  afterAll(() => project[Symbol.dispose]());

  it.each(EXAMPLES)("runs %s", (name) => {
    expect(
      readFileSync(join(ROOT, "examples", name), "utf8")
        .trimEnd()
        .split("\n").length,
    ).toBeLessThanOrEqual(MAX_EXAMPLE_LINES);
    expect(project.node(join("built", name.replace(/\.ts$/, ".js")))).toMatch(EXPECTED[name]);
  });

  it("loads no HTTP, chat or grammar code with the library itself", () => {
    writeFileSync(
      project.file("imports.js"),
      `import { embeddedModelPath, loadModel } from "rocmforge";
      const model = await loadModel(embeddedModelPath());
      await model.generate("Once", { maxTokens: 1 }).result;
      await model.dispose();`,
    );
    project.node("--import", RECORDER, "imports.js");
    const loaded = readFileSync(project.file("loaded.txt"), "utf8").split("\n");
    expect(loaded.some((url) => url.endsWith("/rocmforge/dist/index.js"))).toBe(true);
    const unwanted =
      /fastify|pino|zod|prom-client|light-my-request|jinja|\/dist\/(?:server|cli|grammar|ai)\/|node:http/;
    expect(loaded.filter((url) => unwanted.test(url))).toEqual([]);
  });

  it("offers its models to the AI SDK without loading the SDK, which is not installed, or HTTP code", () => {
    writeFileSync(
      project.file("provider.js"),
      `import { embeddedModelPath } from "rocmforge";
      import { createRocmForge } from "rocmforge/ai";
      const provider = createRocmForge({ models: { story: embeddedModelPath() } });
      const prompt = [{ role: "user", content: [{ type: "text", text: "Who?" }] }];
      const { usage } = await provider("story").doGenerate({ prompt, maxOutputTokens: 1 });
      console.log(usage.outputTokens.total);
      await provider.dispose();`,
    );
    rmSync(project.file("loaded.txt"), { force: true });
    expect(project.node("--import", RECORDER, "provider.js")).toBe("1\n");
    const loaded = readFileSync(project.file("loaded.txt"), "utf8").split("\n");
    expect(loaded.some((url) => url.endsWith("/rocmforge/dist/ai/index.js"))).toBe(true);
    const unwanted = /@ai-sdk|node_modules\/ai\/|fastify|pino|prom-client|\/dist\/(?:server|cli)\/|node:http/;
    expect(loaded.filter((url) => unwanted.test(url))).toEqual([]);
  });

  const canRequire = "require_module" in process.features && process.features.require_module === true;
  it.skipIf(!canRequire)(
    `can be required${canRequire ? "" : " (skipped: this Node cannot require ES modules)"}`,
    () => {
      const program = `
      const { loadModel } = require("rocmforge");
      const { GgufFile } = require("rocmforge/gguf");
      const { ExecutionPlan } = require("rocmforge/internals");
      const { serve } = require("rocmforge/server");
      const { createRocmForge } = require("rocmforge/ai");
      console.log([loadModel, GgufFile, ExecutionPlan, serve, createRocmForge].map((each) => typeof each).join(" "));`;
      writeFileSync(project.file("required.cjs"), program);
      expect(project.node("required.cjs")).toBe("function function function function function\n");
    },
  );
});
