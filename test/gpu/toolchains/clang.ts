// Debian's clang, for cards that no packaged hiprtc knows: the same sources, without headers and device library, linked by
// lld into what the driver would load.

import { readFile, rm, writeFile } from "node:fs/promises";
import type { TemporaryFolder } from "../../support/temporary-folder.js";
import { readCodeObject } from "./code-object.js";
import {
  type CompileRequest,
  defineArguments,
  type MissingToolchain,
  runCompiler,
  type Toolchain,
  versionOf,
} from "./toolchain.js";

/** Newest first. 19 is the oldest that knows gfx1200. */
const VERSIONS = [22, 21, 20, 19] as const;

const OPTIONS = [
  "-x",
  "hip",
  "--cuda-device-only",
  "--no-gpu-bundle-output",
  "-nogpuinc",
  "-nogpulib",
  "-O3",
  "-std=c++17",
];

export async function findClang(folder: TemporaryFolder): Promise<Toolchain | MissingToolchain> {
  for (const version of VERSIONS) {
    const command = `clang-${version}`;
    const [said, linker] = await Promise.all([versionOf(command), versionOf(`ld.lld-${version}`)]);
    if (said !== undefined && linker !== undefined) return clang(command, said, folder);
  }
  return {
    missing: `none of ${VERSIONS.map((version) => `clang-${version}`).join(", ")} is here with its lld; Debian: apt-get install clang-22 lld-22 (or 19)`,
  };
}

function clang(command: string, said: string, folder: TemporaryFolder): Toolchain {
  const version = /version (\S+)/.exec(said)?.[1] ?? "of unknown version";
  let made = 0;
  return {
    name: `clang ${version}`,
    identity: said,
    async compile(request) {
      return readCodeObject(await compileWithClang(command, request, folder.file(`module-${made++}`)));
    },
  };
}

/** The code object; `path` is for files that are removed again. */
export async function compileWithClang(command: string, request: CompileRequest, path: string): Promise<Buffer> {
  await writeFile(`${path}.hip`, request.source);
  const architecture = `--offload-arch=${request.target.architecture}`;
  await runCompiler(command, [
    ...OPTIONS,
    architecture,
    ...defineArguments(request),
    "-o",
    `${path}.co`,
    `${path}.hip`,
  ]);
  const code = await readFile(`${path}.co`);
  await Promise.all([rm(`${path}.hip`), rm(`${path}.co`)]);
  return code;
}
