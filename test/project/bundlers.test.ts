// A program that uses the library, bundled by the real esbuild and run: with the package installed beside it everything is
// found, without it each part that needs more than its code says how to configure the bundler. See docs/bundlers.md.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type BuildOptions } from "esbuild";
import { afterAll, describe, expect, it } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { BUNDLER_ADVICE, findPackage, PACKAGE_VERSION } from "../../src/package-files.js";
import packageJson from "../../package.json" with { type: "json" };
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODEL = join(ROOT, "test/fixtures/models/fable-3m-qwen2-Q4_K_M.gguf");
const NATIVE = "reason" in loadAddon() ? "reference" : "cpu";

const PROGRAM = `
import { embeddedModelPath, loadModel } from "rocmforge";
import { GgufFile } from "rocmforge/gguf";
import { serve } from "rocmforge/server";
const path = process.argv[2];
const attempt = (work) => work().catch((error) => ({ code: error.code, message: error.message }));
async function main() {
  using file = await GgufFile.open(path);
  const model = await loadModel(path);
  let text = "";
  for await (const delta of model.generate("Once upon a time", { maxTokens: 4, seed: 1 })) text += delta.text;
  const backend = model.plan.backend.description.name;
  await model.dispose();
  const served = await attempt(async () => {
    const server = await serve({ models: [{ name: "m", path }], port: 0, logLevel: "silent" });
    const body = { messages: [{ role: "user", content: "Who?" }], max_tokens: 20, response_format: { type: "json_object" } };
    const { status } = await fetch(server.url + "/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    await server.stop(1000);
    return { status };
  });
  const embedded = await attempt(async () => embeddedModelPath());
  console.log(JSON.stringify({ text: text.length > 0, backend, mapped: file.mappingState.mapped, served, embedded }));
}
main();
`;

interface Outcome {
  readonly text: boolean;
  readonly backend: string;
  readonly mapped: boolean;
  readonly served: { readonly status?: number; readonly code?: string; readonly message?: string };
  readonly embedded: string | { readonly code: string };
}

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
for (const place of ["installed/node_modules", "alone"]) mkdirSync(folder.file(place), { recursive: true });
symlinkSync(ROOT, folder.file("installed/node_modules/rocmforge"));
writeFileSync(folder.file("installed/program.mjs"), PROGRAM);

async function bundle(name: string, options: BuildOptions): Promise<string> {
  const outfile = folder.file(name);
  await build({
    entryPoints: [folder.file("installed/program.mjs")],
    bundle: true,
    platform: "node",
    target: "node20",
    outfile,
    logLevel: "silent",
    ...options,
  });
  return outfile;
}

function run(file: string, cwd: string): Outcome & { readonly stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, MODEL], { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${basename(file)} ended with ${status}: ${stderr}`);
  return { ...(JSON.parse(stdout) as Outcome), stderr };
}

describe("a bundle beside the installed package", () => {
  it("finds the addon, threads and files, as CommonJS", { timeout: 120_000 }, async () => {
    const outcome = run(await bundle("installed/bundle.cjs", { format: "cjs" }), folder.file("installed"));
    expect(outcome).toMatchObject({
      text: true,
      backend: NATIVE,
      mapped: process.platform === "linux",
      served: { status: 200 },
    });
    expect(outcome.embedded).toMatch(/models\/fable-10m-Q4_K_M\.gguf$/);
  });

  it(
    "as an ES module finds the same, and says why its server's packages do not load",
    { timeout: 120_000 },
    async () => {
      const outcome = run(await bundle("installed/bundle.mjs", { format: "esm" }), folder.file("alone"));
      expect(outcome).toMatchObject({ text: true, backend: NATIVE, served: { code: "PACKAGE_BUNDLED" } });
      expect(outcome.served.message).toMatch(
        /^\[serve\] this cannot run from a bundle: Dynamic require of .*; keep rocmforge out of the bundle \(esbuild/,
      );
    },
  );

  it("needs nothing of that when the package is kept out of it", { timeout: 120_000 }, async () => {
    const file = await bundle("installed/external.mjs", { format: "esm", external: ["rocmforge"] });
    expect(readFileSync(file, "utf8").length).toBeLessThan(10_000);
    expect(run(file, folder.file("alone"))).toMatchObject({
      text: true,
      backend: NATIVE,
      served: { status: 200 },
      stderr: "",
    });
  });
});

describe("a bundle without the package", () => {
  it.each(["cjs", "esm"] as const)("says how to configure the bundler (%s)", { timeout: 120_000 }, async (format) => {
    const outcome = run(
      await bundle(`alone/bundle.${format === "cjs" ? "cjs" : "mjs"}`, { format }),
      folder.file("alone"),
    );
    // Exact and slow, with the true reason.
    expect(outcome).toMatchObject({
      text: true,
      backend: "reference",
      served: { code: "PACKAGE_BUNDLED" },
      embedded: { code: "PACKAGE_BUNDLED" },
    });
    expect(outcome.stderr).toContain(
      `the cpu backend cannot run here: a bundler has separated this code from the native addon; ${BUNDLER_ADVICE}`,
    );
    expect(outcome.served.message).toContain(BUNDLER_ADVICE);
  });
});

describe("the package's folder", () => {
  it("is found by its package.json, whose version the code knows", () => {
    expect(PACKAGE_VERSION).toBe(packageJson.version);
    for (const here of ["src/package-files.ts", "dist/package-files.js", "build/src/package-files.js"]) {
      expect(findPackage(join(ROOT, here))).toEqual({ folder: ROOT.replace(/\/$/, ""), isBundled: false });
    }
  });

  it("is not in another version of it", () => {
    mkdirSync(folder.file("other/node_modules/rocmforge"), { recursive: true });
    writeFileSync(
      folder.file("other/node_modules/rocmforge/package.json"),
      JSON.stringify({ name: "rocmforge", version: "9.9.9" }),
    );
    expect(findPackage(folder.file("other/bundle.mjs"))).toEqual({
      problem: expect.stringMatching(
        /^rocmforge \S+ was bundled into .*bundle\.mjs, and 9\.9\.9 is installed in /,
      ) as string,
    });
  });

  it("is documented with the words that bundlers know", () => {
    const page = readFileSync(join(ROOT, "docs/bundlers.md"), "utf8");
    for (const word of ['external: ["rocmforge"]', 'serverExternalPackages: ["rocmforge"]', "PACKAGE_BUNDLED"])
      expect(page).toContain(word);
    expect(readFileSync(join(ROOT, "README.md"), "utf8")).toContain("(docs/bundlers.md)");
  });
});
