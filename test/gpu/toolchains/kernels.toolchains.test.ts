// Every kernel by real compilers, for cards that are not here: AMD's by hiprtc and clang, NVIDIA's by NVRTC and nvcc. The
// define sets are those that the backend would ask for; ROCMFORGE_TOOLCHAINS says how many of them.
// A compile error fails, and so does code that is not as the host believes; spills are reported, not judged.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { findClang } from "./clang.js";
import { compileModules, forgetOldModules } from "./compiled-module.js";
import { cover, type Strength } from "./cover.js";
import { kernelFiles } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { type KernelModule, kernelModules, moduleName } from "./kernel-modules.js";
import { findNvcc } from "./nvcc.js";
import { report, spillingKernels } from "./report.js";
import { type RepresentativeModel, representativeModels } from "./representative-models.js";
import { runTimeCompiler } from "./run-time-compilers.js";
import { CLANG_TARGETS, HIPRTC_TARGETS, isFileFor, NVIDIA_TARGETS, type Target } from "./targets.js";

/** The modules of one file, from cold, on a busy machine with two cores. */
const LIMIT_MS = 3_600_000;
const SHOWN_FAILURES = 5;
const EXTENTS: Readonly<Record<string, Strength | undefined>> = { quick: 1, usual: 2, all: undefined };

const extent = process.env["ROCMFORGE_TOOLCHAINS"] ?? "usual";
const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
beforeAll(forgetOldModules);

let models: readonly RepresentativeModel[] | undefined;
const listed = new Map<string, readonly KernelModule[]>();

function modulesFor(target: Target): readonly KernelModule[] {
  models ??= representativeModels();
  const modules = listed.get(target.architecture) ?? kernelModules(models, target);
  listed.set(target.architecture, modules);
  return modules;
}

function chosen(modules: readonly KernelModule[]): readonly KernelModule[] {
  const strength = EXTENTS[extent];
  return strength === undefined ? modules : cover(modules, ({ defines }) => defines, strength);
}

const TOOLCHAINS = [
  { name: "hiprtc", toolchain: runTimeCompiler("hip"), targets: HIPRTC_TARGETS },
  { name: "clang", toolchain: await findClang(folder), targets: CLANG_TARGETS },
  { name: "NVRTC", toolchain: runTimeCompiler("cuda"), targets: NVIDIA_TARGETS },
  { name: "nvcc", toolchain: await findNvcc(folder), targets: NVIDIA_TARGETS },
] as const;

for (const { name, toolchain, targets } of TOOLCHAINS) {
  const why = "missing" in toolchain ? toolchain.missing : undefined;
  if (why !== undefined) report({ toolchain: name, skipped: why });
  it.skipIf(why !== undefined)(`${name} is here${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
    expect(toolchain).toHaveProperty("identity", expect.stringMatching(/\d/));
  });
  if ("missing" in toolchain) continue;
  describe.each(targets.map((target) => [target.architecture, target] as const))(
    `${toolchain.name} for %s`,
    (architecture, target) => {
      const files = kernelFiles().filter((file) => isFileFor(file, architecture));
      it.each(files)("compiles %s.hip", { timeout: LIMIT_MS }, async (file) => {
        const possible = modulesFor(target).filter((module) => module.file === file);
        expect(possible.length, `${file}.hip is launched by nothing that these models need`).toBeGreaterThan(0);
        const compiled = await compileModules(toolchain, target, chosen(possible));
        const failed = compiled.filter(({ problem }) => problem !== undefined);
        const fresh = compiled.filter((result) => result.fresh).length;
        report({
          toolchain: toolchain.name,
          target: architecture,
          file,
          fresh,
          kept: compiled.length - fresh,
          possible: possible.length,
          failures: failed.length,
          mostRegisters: compiled
            .flatMap(({ kernels }) => kernels)
            .reduce((most, { vectorRegisters }) => Math.max(most, vectorRegisters), 0),
          spilling: spillingKernels(compiled),
        });
        const shown = failed
          .slice(0, SHOWN_FAILURES)
          .map(({ module, problem }) => `${moduleName(module)} (asked for by ${module.askedBy})\n${problem}`);
        expect(shown.join("\n\n"), `${failed.length} of ${compiled.length} modules`).toBe("");
      });
    },
  );
}
