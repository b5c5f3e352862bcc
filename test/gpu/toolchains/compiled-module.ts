// Modules compiled by one toolchain for one card, a few at a time, each checked against what the host believes of its
// kernels. What was compiled before from the same text is not compiled again: .cache/toolchains remembers its figures.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import type { KernelUse } from "./code-object.js";
import { type KernelModule, moduleName } from "./kernel-modules.js";
import type { Target } from "./targets.js";
import type { Toolchain } from "./toolchain.js";

const CACHE_FOLDER = fileURLToPath(new URL("../../../.cache/toolchains/", import.meta.url));
/** Raised when the figures are read or the compilers called in another way. */
const KEY_VERSION = 1;
const KEPT_MS = 30 * 86_400_000;

export interface CompiledModule {
  readonly module: KernelModule;
  readonly kernels: readonly KernelUse[];
  /** False where the figures were remembered. */
  readonly fresh: boolean;
  /** What the compiler said, or what is not as the host believes. */
  readonly problem?: string;
}

export async function compileModules(
  toolchain: Toolchain,
  target: Target,
  modules: readonly KernelModule[],
  cacheFolder: string = CACHE_FOLDER,
): Promise<readonly CompiledModule[]> {
  await mkdir(cacheFolder, { recursive: true });
  const results: CompiledModule[] = [];
  const left = modules.entries();
  const work = async (): Promise<void> => {
    for (const [index, module] of left) results[index] = await compileModule(toolchain, target, module, cacheFolder);
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return results;
}

async function compileModule(
  toolchain: Toolchain,
  target: Target,
  module: KernelModule,
  cacheFolder: string,
): Promise<CompiledModule> {
  const { file, defines } = module;
  const source = loadKernelSource(file).text;
  const parts = [
    KEY_VERSION,
    toolchain.identity,
    target.architecture,
    target.device.waveSize,
    moduleName(module),
    source,
  ];
  const path = join(cacheFolder, `${createHash("sha256").update(JSON.stringify(parts)).digest("hex")}.json`);
  const kept = await readKept(path);
  try {
    const kernels = kept ?? (await toolchain.compile({ name: `${file}.hip`, source, defines, target })) ?? [];
    if (kept === undefined) await keep(path, kernels);
    const problem = kernels.length === 0 ? undefined : mismatch(module, kernels, target);
    return { module, kernels, fresh: kept === undefined, ...(problem === undefined ? {} : { problem }) };
  } catch (error) {
    return { module, kernels: [], fresh: true, problem: error instanceof Error ? error.message : String(error) };
  }
}

/** Whatever the host would launch wrongly. */
function mismatch(
  { file, defines, launched }: KernelModule,
  kernels: readonly KernelUse[],
  { device }: Target,
): string | undefined {
  const source = loadKernelSource(file);
  const problems: string[] = [];
  const expect = (name: string, what: string, expected: number, found: number): void => {
    if (expected !== found) problems.push(`${name}: ${what}: the host has ${expected}, the code has ${found}`);
  };
  for (const [name, dynamicBytes] of launched) {
    const use = kernels.find((kernel) => kernel.name === name);
    if (use === undefined) {
      problems.push(
        `${name} is launched and not in the code, which has ${kernels.map((kernel) => kernel.name).join(", ")}`,
      );
      continue;
    }
    const sharedBytes = use.sharedBytes + dynamicBytes;
    if (sharedBytes > device.sharedBytes)
      problems.push(
        `${name}: a block takes ${sharedBytes} bytes of shared memory, and there are ${device.sharedBytes}`,
      );
    if (use.launch === undefined) continue;
    const { layout, threads } = source.kernel(name);
    expect(name, "bytes of arguments", layout.sizeBytes, use.launch.argumentBytes);
    expect(
      name,
      "threads of a block",
      source.constant(threads, { WAVE: device.waveSize, ...defines }),
      use.launch.threads,
    );
    expect(name, "lanes of a wave", device.waveSize, use.launch.waveSize);
  }
  return problems.length === 0 ? undefined : problems.join("\n");
}

async function readKept(path: string): Promise<readonly KernelUse[] | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as readonly KernelUse[];
  } catch {
    return undefined;
  }
}

async function keep(path: string, kernels: readonly KernelUse[]): Promise<void> {
  const partial = `${path}.${process.pid}`;
  await writeFile(partial, JSON.stringify(kernels));
  await rename(partial, path);
}

/** What no run of the last weeks has made. */
export async function forgetOldModules(): Promise<void> {
  await mkdir(CACHE_FOLDER, { recursive: true });
  for (const name of await readdir(CACHE_FOLDER)) {
    const path = join(CACHE_FOLDER, name);
    if (Date.now() - (await stat(path)).mtimeMs > KEPT_MS) await rm(path, { force: true });
  }
}
