// Compiles every hot kernel for a card with clang, takes its code apart with llvm-objdump and llvm-mca, and gives its
// figures.

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { promisify } from "node:util";
import { loadKernelSource } from "../../../../src/backends/gpu/kernels/kernel-source.js";
import type { TemporaryFolder } from "../../../support/temporary-folder.js";
import { compileWithClang } from "../clang.js";
import { readCodeObject } from "../code-object.js";
import { type MissingToolchain, versionOf } from "../toolchain.js";
import type { Card } from "./cards.js";
import { type Instruction, isFree, readDisassembly } from "./disassembly.js";
import { type HotKernel, hotKernels } from "./hot-kernels.js";
import { type KernelFigures, kernelFigures } from "./kernel-figures.js";

/** The version that compiles for all cards; older ones do not know gfx950 or miscompile gfx11. */
const VERSION = 22;
const MOST_OUTPUT_BYTES = 64 << 20;
const run = promisify(execFile);

export interface MeasuredKernel {
  readonly hot: HotKernel;
  readonly figures: KernelFigures;
  /** Cycles of the hot loop by llvm-mca's model, if nothing waits; undefined if it does not understand the loop. */
  readonly modelCycles: number | undefined;
}

export async function missingTools(): Promise<MissingToolchain | undefined> {
  const tools = [`clang-${VERSION}`, `ld.lld-${VERSION}`, `llvm-objdump-${VERSION}`, `llvm-mca-${VERSION}`];
  const versions = await Promise.all(tools.map(versionOf));
  const missing = tools.filter((_, index) => versions[index] === undefined);
  return missing.length === 0
    ? undefined
    : { missing: `${missing.join(", ")} not found; Debian: apt-get install clang-22 lld-22 llvm-22` };
}

export async function measureCard(card: Card, folder: TemporaryFolder): Promise<readonly MeasuredKernel[]> {
  const kernels = hotKernels(card);
  const measured: MeasuredKernel[] = [];
  const left = kernels.entries();
  const work = async (): Promise<void> => {
    for (const [index, hot] of left)
      measured[index] = await measureKernel(card, hot, folder.file(`${card.architecture}-${index}`));
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return measured;
}

/** `path` is for files that are left there. */
export async function measureKernel(card: Card, hot: HotKernel, path: string): Promise<MeasuredKernel> {
  const { text: source } = loadKernelSource(hot.file);
  const request = { name: `${hot.file}.hip`, source, defines: hot.defines, target: card };
  const code = await compileWithClang(`clang-${VERSION}`, request, path);
  await writeFile(`${path}.co`, code);
  const { stdout } = await run(`llvm-objdump-${VERSION}`, ["-d", `${path}.co`], { maxBuffer: MOST_OUTPUT_BYTES });
  const disassembled = readDisassembly(stdout).get(hot.kernel);
  const use = readCodeObject(code).find(({ name }) => name === hot.kernel);
  if (disassembled === undefined || use === undefined) throw new TypeError(`${hot.kernel} is not in the code object`);
  const figures = kernelFigures(card, hot, use, disassembled);
  return { hot, figures, modelCycles: await modelCycles(card, figures.region, path) };
}

/** llvm-mca's reciprocal throughput: the time of the busiest unit. */
async function modelCycles(card: Card, region: readonly Instruction[], path: string): Promise<number | undefined> {
  // Where a branch leads does not matter, and labels would be missing.
  const lines = region
    .filter((instruction) => !isFree(instruction) && instruction.target === undefined)
    .map(({ name, operands }) => `${name} ${operands}`);
  await writeFile(`${path}.s`, `${lines.join("\n")}\n`);
  const args = ["-mtriple=amdgcn", `-mcpu=${card.architecture}`, "--iterations=1", "--instruction-info=false"];
  try {
    const { stdout } = await run(`llvm-mca-${VERSION}`, [...args, `${path}.s`], { maxBuffer: MOST_OUTPUT_BYTES });
    const found = /Block RThroughput: ([\d.]+)/.exec(stdout);
    return found === null ? undefined : Number(found[1]);
  } catch {
    return undefined;
  }
}
