// NVIDIA's offline compiler: what NVRTC compiles too, with the assembler's word on registers and spills.

import { readFile, rm, writeFile } from "node:fs/promises";
import { NVRTC } from "../../../src/backends/gpu/drivers/cuda/compiler.js";
import type { TemporaryFolder } from "../../support/temporary-folder.js";
import type { KernelUse } from "./code-object.js";
import {
  type CompileRequest,
  defineArguments,
  type MissingToolchain,
  runCompiler,
  type Toolchain,
  versionOf,
} from "./toolchain.js";

/** --expt-relaxed-constexpr stands for the -default-device of NVRTC, which nvcc has not. */
const OPTIONS = ["-cubin", "-std=c++17", "--expt-relaxed-constexpr", "-Xptxas=-v"];

/** What the compiler made. */
export interface Cubin {
  readonly code: Buffer;
  readonly kernels: readonly KernelUse[];
}

let made = 0;

export async function compileCubin(request: CompileRequest, folder: TemporaryFolder): Promise<Cubin> {
  const path = folder.file(`module-${made++}`);
  await writeFile(`${path}.cu`, request.source);
  const log = await runCompiler("nvcc", [
    ...OPTIONS,
    architectureOption(request),
    ...defineArguments(request),
    "-o",
    `${path}.cubin`,
    `${path}.cu`,
  ]);
  const code = await readFile(`${path}.cubin`);
  await Promise.all([rm(`${path}.cu`), rm(`${path}.cubin`)]);
  return { code, kernels: readAssemblerLog(log) };
}

export async function findNvcc(folder: TemporaryFolder): Promise<Toolchain | MissingToolchain> {
  const said = await versionOf("nvcc");
  if (said === undefined) return { missing: "nvcc is not on the PATH; it comes with NVIDIA's CUDA toolkit" };
  const version = /release ([\d.]+)/.exec(said)?.[1] ?? "of unknown version";
  return {
    name: `nvcc ${version}`,
    identity: said,
    compile: async (request) => (await compileCubin(request, folder)).kernels,
  };
}

/** As the backend asks NVRTC, with the instructions that only one architecture has. */
function architectureOption({ name, defines, target: { architecture, device } }: CompileRequest): string {
  const options = NVRTC.options({ name, architecture, waveSize: device.waveSize, defines });
  return options.find((option) => option.startsWith("--gpu-architecture=")) ?? `--gpu-architecture=${architecture}`;
}

/** ptxas -v: a line that names the kernel, one with stack and spills, one with registers and shared memory. */
export function readAssemblerLog(log: string): readonly KernelUse[] {
  const parts = log.split(/Compiling entry function '/).slice(1);
  if (parts.length === 0) throw new TypeError(`the assembler names no kernels: ${log.slice(0, 400)}`);
  return parts.map((part): KernelUse => {
    const number = (pattern: RegExp): number => Number(pattern.exec(part)?.[1] ?? 0);
    return {
      name: part.slice(0, part.indexOf("'")),
      vectorRegisters: number(/Used (\d+) registers/),
      sharedBytes: number(/(\d+) bytes smem/),
      stackBytes: number(/(\d+) bytes stack frame/),
      spilledBytes: number(/(\d+) bytes spill stores/),
    };
  });
}
