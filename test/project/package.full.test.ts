// The package as users get it: packed, installed into an empty folder, imported, type-checked and run there.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { kernelFiles } from "../../src/backends/gpu/kernels/kernel-source.js";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = new URL("../..", import.meta.url).pathname;
const PROGRAM = `
import { type FinishReason, GgufError, loadModel, loadTokenizer, type Generation } from "rocmforge";
const path = "node_modules/rocmforge/models/fable-10m-Q4_K_M.gguf";
const model = await loadModel(path, { backend: "reference" });
const story: Generation = model.generate("Once upon a time", { maxTokens: 4, seed: 1 });
let text = "";
for await (const delta of story) text += delta.text;
const reason: FinishReason = (await story.result).finishReason;
const logits: Float32Array = await model.logits(model.tokenize("a"));
const ids: Int32Array = (await loadTokenizer(path)).encode("hello", { addSpecial: false });
await model.dispose();
const refused = await loadModel("package.json").catch((error: unknown) => error instanceof GgufError && error.code);
console.log(JSON.stringify({ text, reason, logits: logits.length, ids: ids.length, refused }));
`;
/** From dist/, as the GPU backend finds them. */
const KERNELS = `
import { KERNEL_FOLDER, kernelFiles, loadKernelSource } from "./node_modules/rocmforge/dist/backends/gpu/kernels/kernel-source.js";
console.log(JSON.stringify({ folder: KERNEL_FOLDER, kernels: kernelFiles().map((name) => loadKernelSource(name).kernelNames.length) }));
`;

it("works from an empty folder: import, types and commands", () => {
  using folder = new TemporaryFolder();
  const run = (program: string, ...args: string[]): string =>
    execFileSync(program, args, { cwd: folder.path, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const packed = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--pack-destination", folder.path], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    }),
  ) as readonly { readonly filename: string }[];
  run("npm", "init", "--yes");
  run("npm", "install", "--engine-strict", "--no-audit", "--no-fund", `./${packed[0].filename}`);

  writeFileSync(join(folder.path, "program.mts"), PROGRAM);
  const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  run(process.execPath, compiler, "--strict", "--module", "nodenext", "--target", "es2022", "program.mts");
  const output = JSON.parse(run(process.execPath, "program.mjs")) as Record<string, unknown>;
  expect(output).toMatchObject({ reason: "length", ids: 3, refused: "GGUF_NOT_GGUF" });
  expect(output["logits"]).toBe(2 * 4096);

  writeFileSync(join(folder.path, "kernels.mjs"), KERNELS);
  const found = JSON.parse(run(process.execPath, "kernels.mjs")) as {
    readonly folder: string;
    readonly kernels: readonly number[];
  };
  expect(found.folder).toContain(join("node_modules", "rocmforge", "kernels"));
  expect(found.kernels.length).toBe(kernelFiles(join(ROOT, "kernels")).length);
  expect(found.kernels.every((count) => count > 0)).toBe(true);

  const command = (...args: string[]): string => run("npx", "--no-install", "rocmforge", ...args);
  expect(command("--version").trim()).toMatch(/^\d+\.\d+\.\d+$/);
  expect(command("generate", "-p", "Once upon a time", "-n", "4", "--seed", "1")).toContain("Once upon a time");
  expect(JSON.parse(command("devices", "--json"))).toMatchObject({
    drivers: [{ backend: "hip" }, { backend: "cuda" }],
  });
  expect(JSON.parse(command("plan", "--json"))).toMatchObject({ memory: { kvCacheBytes: expect.any(Number) } });
});
