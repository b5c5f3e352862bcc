// Makes a compiler link against an older glibc than the machine's: stub libraries with the same names that offer only
// the symbol versions up to a limit, read from the machine's own libraries. The linker takes the newest version that it
// is offered, so a library linked this way loads wherever that glibc, or a newer one, is installed.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { compareVersions, glibcVersion, readElf } from "./elf.mjs";
import { runProgram, ScriptError } from "./tool.mjs";

const [STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC] = [1, 2, 6, 10];
const CODE_TYPES = new Set([STT_FUNC, STT_GNU_IFUNC]);
/** Part of libc.so.6 since 2.34; older systems have their functions in these files, newer ones keep them empty. */
const FORMER_LIBRARIES = ["libdl.so.2", "libpthread.so.0"];

/** For each symbol the newest version within the limit. */
function symbolsWithin(symbols, limit) {
  const chosen = new Map();
  for (const { name, type, isDefined, version } of symbols) {
    const numbers = glibcVersion(version);
    // Each version is also a symbol of its own name, which the linker defines.
    if (!isDefined || type === STT_TLS || numbers === undefined || name === version) continue;
    if (compareVersions(numbers, limit) > 0) continue;
    const known = chosen.get(name);
    if (known === undefined || compareVersions(known.numbers, numbers) < 0)
      chosen.set(name, { numbers, version, type });
  }
  return chosen;
}

function assembly(chosen) {
  const lines = [".text"];
  for (const [name, { version, type }] of chosen) {
    const stub = `rocmforge_stub_${name}`;
    lines.push(`.globl ${stub}`, `.type ${stub}, %${CODE_TYPES.has(type) ? "function" : "object"}`, `${stub}:`);
    if (type === STT_OBJECT) lines.push(`.size ${stub}, 8`);
    lines.push(".quad 0", `.symver ${stub}, ${name}@@@${version}`);
  }
  return `${lines.join("\n")}\n.section .note.GNU-stack,"",%progbits\n`;
}

function versionScript(chosen) {
  const versions = new Set([...chosen.values()].map(({ version }) => version));
  return [...versions]
    .toSorted((left, right) => compareVersions(glibcVersion(left), glibcVersion(right)))
    .map((version) => `${version} { };\n`)
    .join("");
}

async function run(compiler, args) {
  const { exitCode, output } = await runProgram(compiler, args);
  if (exitCode !== 0)
    throw new ScriptError("the libraries of an older glibc could not be written", { tail: output.slice(-6000) });
  return output.trim();
}

/**
 * Writes the stubs into `folder`.
 * @param {{ compiler: string, loader: string, limit: number[], folder: string }} options `loader` is the file name of the dynamic linker
 * @returns {Promise<string[]>} the arguments for the linker
 */
export async function writeGlibcStubs({ compiler, loader, limit, folder }) {
  mkdirSync(folder, { recursive: true });
  const stub = async (library, chosen) => {
    const path = join(folder, library);
    writeFileSync(`${path}.s`, assembly(chosen));
    writeFileSync(`${path}.map`, versionScript(chosen));
    const script = chosen.size === 0 ? [] : [`-Wl,--version-script=${path}.map`];
    await run(compiler, ["-shared", "-nostdlib", `-Wl,-soname,${library}`, ...script, `${path}.s`, "-o", path]);
    return path;
  };
  const paths = {};
  for (const library of ["libc.so.6", "libm.so.6", loader]) {
    const real = await run(compiler, [`-print-file-name=${library}`]);
    paths[library] = await stub(library, symbolsWithin(readElf(real).symbols, limit));
  }
  const unshared = await run(compiler, ["-print-file-name=libc_nonshared.a"]);
  // As the system's own libc.so: a script that names the library and what is linked statically with it.
  writeFileSync(
    join(folder, "libc.so"),
    `GROUP ( ${paths["libc.so.6"]} ${unshared} AS_NEEDED ( ${paths[loader]} ) )\n`,
  );
  writeFileSync(join(folder, "libm.so"), `GROUP ( ${paths["libm.so.6"]} )\n`);
  const former = [];
  for (const library of FORMER_LIBRARIES) former.push(await stub(library, new Map()));
  return [`-L${folder}`, "-Wl,--no-as-needed", ...former, "-Wl,--as-needed"];
}

/**
 * What a library would ask of the system that it must not: newer symbols of glibc, other libraries, unknown symbols.
 * @param {string} path of the addon
 * @param {number[]} limit the newest version of glibc that may be needed
 * @returns {string[]} one sentence for each problem
 */
export function glibcProblems(path, limit) {
  const { needed, symbols } = readElf(path);
  const allowed = /^(?:libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-[\w-]+\.so\.\d)$/;
  const libraries = needed.filter((library) => !allowed.test(library)).map((library) => `needs ${library}`);
  const wanted = symbols
    .filter(({ isDefined, isWeak, version }) => !isDefined && !(isWeak && version === undefined))
    .flatMap(({ name, version }) => {
      if (version === undefined)
        return /^(?:napi|node_api)_/.test(name) ? [] : [`needs ${name}, which no library offers`];
      const numbers = glibcVersion(version);
      return numbers !== undefined && compareVersions(numbers, limit) <= 0 ? [] : [`needs ${name}@${version}`];
    });
  return [...libraries, ...wanted];
}
