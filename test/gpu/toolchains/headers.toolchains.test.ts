// Every kernel file by real compilers behind declarations of all its names as something else, and behind HIP's own headers
// where they are installed: what hiprtc of ROCm 6 and 7 puts before a source.

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { afterAll, describe, expect, it } from "vitest";
import { kernelFiles, loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { declaredNames, globalDeclarations } from "./declared-names.js";
import { findNvcc } from "./nvcc.js";
import { runTimeCompiler } from "./run-time-compilers.js";
import { smallModules } from "./small-modules.js";
import { CLANG_TARGETS, HIPRTC_TARGETS, isFileFor, NVIDIA_TARGETS } from "./targets.js";
import { defineArguments, runCompiler, versionOf } from "./toolchain.js";

const LIMIT_MS = 600_000;
const CLANG_VERSIONS = [22, 21, 20, 19] as const;
const INCLUDES = "/usr/include";
const HEADERS = ["hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_cooperative_groups.h"];
const WITH_HEADERS = HEADERS.map((header) => `#include <${header}>\n`).join("");
const HEADER_OPTIONS = ["-D__HIP_PLATFORM_AMD__", "-w"];
const SYNTAX = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-fsyntax-only", "-std=c++17"];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const [, target] = CLANG_TARGETS;
const modules = smallModules(target);
const FILES = kernelFiles().filter((file) => isFileFor(file, target.architecture));
const found = await Promise.all(
  CLANG_VERSIONS.map(async (version) => ((await versionOf(`clang-${version}`)) === undefined ? [] : [version])),
);
const versions = found.flat();

async function compile(version: number, file: string, before: string, options: readonly string[]): Promise<string> {
  const path = folder.file(`${version}-${file.replace("/", "-")}.hip`);
  await writeFile(path, before + loadKernelSource(file).text);
  const defines = defineArguments({ target, defines: modules.get(file)?.defines ?? {} });
  return await runCompiler(`clang-${version}`, [
    ...SYNTAX,
    ...options,
    `--offload-arch=${target.architecture}`,
    ...defines,
    path,
  ]);
}

/** Why a clang does not get HIP's headers: they go with the compilers of their own years. */
async function missingHeadersReason(version: number): Promise<string> {
  if (!existsSync(`${INCLUDES}/${HEADERS[0]}`))
    return "HIP's headers are not here; Debian: apt-get install libamdhip64-dev";
  const path = folder.file(`headers-${version}.hip`);
  await writeFile(path, WITH_HEADERS);
  try {
    await runCompiler(`clang-${version}`, [
      ...SYNTAX,
      ...HEADER_OPTIONS,
      `--offload-arch=${target.architecture}`,
      path,
    ]);
    return "";
  } catch {
    return `clang ${version} does not take the HIP headers that are here by themselves`;
  }
}

const missingHeaders = new Map(
  await Promise.all(versions.map(async (version) => [version, await missingHeadersReason(version)] as const)),
);

describe.skipIf(versions.length === 0)(
  `clang${versions.length === 0 ? " (skipped: no clang-19 to clang-22 is here)" : ""}`,
  () => {
    describe.each(versions)("%i", (version) => {
      it.each(FILES)("takes %s.hip behind its own names", { timeout: LIMIT_MS }, async (file) => {
        const names = globalDeclarations(declaredNames(loadKernelSource(file).text));
        expect(await compile(version, file, names, ["-nogpuinc", "-w"])).toBe("");
      });

      const missing = missingHeaders.get(version) ?? "";
      const why = missing === "" ? "" : ` (skipped: ${missing})`;
      it.skipIf(missing !== "").each(FILES)(
        `takes %s.hip behind HIP's headers${why}`,
        { timeout: LIMIT_MS },
        async (file) => {
          expect(await compile(version, file, WITH_HEADERS, HEADER_OPTIONS)).toBe("");
        },
      );
    });
  },
);

const WHOLE_COMPILERS = [
  { name: "hiprtc", toolchain: runTimeCompiler("hip"), target: HIPRTC_TARGETS[0] },
  { name: "NVRTC", toolchain: runTimeCompiler("cuda"), target: NVIDIA_TARGETS[0] },
  { name: "nvcc", toolchain: await findNvcc(folder), target: NVIDIA_TARGETS[0] },
] as const;

describe.each(WHOLE_COMPILERS)("$name", ({ toolchain, target: card }) => {
  const missing = "missing" in toolchain ? toolchain.missing : "";
  it.skipIf(missing !== "").each(kernelFiles().filter((file) => isFileFor(file, card.architecture)))(
    `takes %s.hip behind its own names${missing === "" ? "" : ` (skipped: ${missing})`}`,
    { timeout: LIMIT_MS },
    async (file) => {
      if ("missing" in toolchain) throw new Error(toolchain.missing);
      const { text } = loadKernelSource(file);
      const module = smallModules(card).get(file);
      const kernels = await toolchain.compile({
        name: `${file}.hip`,
        source: globalDeclarations(declaredNames(text)) + text,
        defines: module?.defines ?? {},
        target: card,
      });
      // By their plain names, as the host asks for them; NVRTC does not tell.
      if (kernels !== undefined)
        expect(kernels.map(({ name }) => name)).toEqual(expect.arrayContaining([...(module?.launched.keys() ?? [])]));
    },
  );
});
