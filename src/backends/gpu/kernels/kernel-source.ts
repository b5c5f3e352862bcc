// A kernel file as the compilers get it: one text with every `#include "room/x.h"` inlined, each header once (paths are
// relative to kernels/, wherever the including file is), and what the host has to know about it: the argument structs
// with their offsets, and the kernels with struct and block size. All of it is inside a namespace, because hiprtc from
// ROCm 6 on puts HIP's headers, with hundreds of global names, before every source; the kernels themselves have C
// linkage and are found by their plain names. The .hip file is the only definition: nothing about a kernel's arguments
// is written down twice.

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { packageFile } from "../../../package-files.js";
import { type ArgumentLayout, parseArgumentLayouts } from "./argument-layout.js";
import { gpuError } from "../drivers/shared/gpu-error.js";

/** The package's folder of kernel sources. */
export const KERNEL_FOLDER = packageFile("kernels");

/** Provided by the emulator's compiler; real compilers never reach the line that includes it. */
const GIVEN_BY_COMPILER = "emulated-device.h";
const NAMESPACE = "rocmforge";
const INCLUDE = /^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*$/;
const PRAGMA_ONCE = /^[ \t]*#[ \t]*pragma[ \t]+once\b.*$/;
/** A name in kernels/ or in one of its folders: no path leaves the folder. */
const FILE_NAME = /^(?:[a-z0-9][a-z0-9-]*\/)?[a-z0-9][a-z0-9-]*$/;
const HEADER_NAME = /^(?:[a-z0-9][a-z0-9-]*\/)?[a-z0-9][a-z0-9-]*\.h$/;
const KERNEL_ENDING = ".hip";
const MAX_DEPTH = 16;

interface KernelDeclaration {
  readonly name: string;
  readonly layout: ArgumentLayout;
  /** The block size as written: a number, or a name that the file or the defines give a value. */
  readonly threads: string;
}

/** Preprocessor defines of one compilation. */
export type Defines = Readonly<Record<string, string | number>>;

/** One kernel file with its headers inlined, and the layouts of its kernels' arguments. */
export class KernelSource {
  /** Path inside kernels/ without its extension: "matmul/gemv". */
  readonly name: string;
  readonly text: string;
  readonly layouts: ReadonlyMap<string, ArgumentLayout>;
  readonly #declarations: ReadonlyMap<string, { readonly layout: string; readonly threads: string }>;
  readonly #bareText: string;
  #digest: string | undefined;

  constructor(name: string, text: string) {
    this.name = name;
    this.text = text;
    this.#bareText = withoutComments(text);
    this.layouts = parseArgumentLayouts(name, this.#bareText);
    this.#declarations = parseDeclarations(this.#bareText);
  }

  /**
   * Hash of the text, computed once: many modules are compiled from one file, and hashing it for each takes longer than
   * reading them.
   */
  get digest(): string {
    this.#digest ??= createHash("sha256").update(this.text).digest("hex");
    return this.#digest;
  }

  get kernelNames(): readonly string[] {
    return [...this.#declarations.keys()];
  }

  kernel(name: string): KernelDeclaration {
    const declaration = this.#declarations.get(name);
    if (declaration === undefined) {
      throw wrongSource(
        this.name,
        `has no KERNEL(${name}, …); it has ${[...this.#declarations.keys()].join(", ") || "none"}`,
      );
    }
    return { name, layout: this.layout(declaration.layout), threads: declaration.threads };
  }

  layout(structName: string): ArgumentLayout {
    const layout = this.layouts.get(structName);
    if (layout === undefined)
      throw wrongSource(
        this.name,
        `has no struct ${structName}; it has ${[...this.layouts.keys()].join(", ") || "none"}`,
      );
    return layout;
  }

  /** The value of a named integer of the file: a define, a constexpr int, or a sum of such. */
  constant(expression: string, defines: Defines = {}): number {
    return this.#evaluate(expression, defines, 0);
  }

  #evaluate(expression: string, defines: Defines, depth: number): number {
    const factors = expression.replace(/^\((.*)\)$/, "$1").split("*");
    const values = factors.map((factor) => this.#value(factor.trim(), defines, depth));
    return values.reduce((total, value) => total * value, 1);
  }

  #value(word: string, defines: Defines, depth: number): number {
    if (/^\d+$/.test(word)) return Number(word);
    if (!/^\w+$/.test(word) || depth > MAX_DEPTH)
      throw wrongSource(this.name, `has a constant that the host cannot evaluate: ${word}`);
    const given = defines[word];
    if (given !== undefined) return this.#evaluate(String(given), defines, depth + 1);
    const stated =
      new RegExp(String.raw`\bconstexpr\s+int\s+${word}\s*=\s*([^;]+);`).exec(this.#bareText) ??
      new RegExp(String.raw`^[ \t]*#[ \t]*define[ \t]+${word}[ \t]+(\S.*)$`, "m").exec(this.#bareText);
    if (stated === null) throw wrongSource(this.name, `does not define ${word}`);
    return this.#evaluate(stated[1].trim(), defines, depth + 1);
  }
}

const loaded = new Map<string, KernelSource>();

/** The names of all kernel files of a folder, as `loadKernelSource` takes them, sorted. */
export function kernelFiles(folder: string = KERNEL_FOLDER): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(KERNEL_ENDING))
    .map((path) => path.slice(0, -KERNEL_ENDING.length).replaceAll(sep, "/"))
    .toSorted();
}

/** Reads `kernels/<name>.hip` once; `name` is a path inside the folder without its extension, such as "matmul/gemv". */
export function loadKernelSource(name: string, folder: string = KERNEL_FOLDER): KernelSource {
  const path = join(folder, name + KERNEL_ENDING);
  const known = loaded.get(path);
  if (known !== undefined) return known;
  if (!FILE_NAME.test(name)) throw wrongSource(name, "is not the name of a kernel file");
  const source = new KernelSource(name, assemble(folder, name + KERNEL_ENDING));
  loaded.set(path, source);
  return source;
}

function assemble(folder: string, fileName: string): string {
  const taken = new Set<string>();
  const lines: string[] = [];
  const take = (file: string, depth: number): void => {
    const path = join(folder, file);
    if (depth > MAX_DEPTH) throw wrongSource(fileName, `includes ${file} too deep`);
    if (!existsSync(path))
      throw wrongSource(
        fileName,
        `needs ${path}, which is missing`,
        "reinstall the package: its kernels/ folder is incomplete",
      );
    taken.add(file);
    lines.push(`#line 1 "${file}"`);
    for (const [index, line] of readFileSync(path, "utf8").split("\n").entries()) {
      const included = INCLUDE.exec(line)?.[1];
      if (included === undefined || included === GIVEN_BY_COMPILER) {
        lines.push(PRAGMA_ONCE.test(line) ? "" : line);
        continue;
      }
      if (!HEADER_NAME.test(included))
        throw wrongSource(fileName, `includes "${included}", which is not a header of kernels/`);
      if (taken.has(included)) {
        lines.push("");
        continue;
      }
      take(included, depth + 1);
      lines.push(`#line ${index + 2} "${file}"`);
    }
  };
  take(fileName, 0);
  return `namespace ${NAMESPACE} {\n${lines.join("\n")}\n}\n`;
}

/** Replaces comments by blanks, so that no struct or kernel is found in them. */
function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, " ");
}

function parseDeclarations(text: string): ReadonlyMap<string, { readonly layout: string; readonly threads: string }> {
  const found = new Map<string, { readonly layout: string; readonly threads: string }>();
  const withoutMacros = text.replace(/^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*$/gm, "");
  for (const [, name, layout, threads] of withoutMacros.matchAll(
    /\bKERNEL\(\s*(\w+)\s*,\s*(\w+)\s*,\s*([^){]+?)\s*\)\s*\{/g,
  )) {
    found.set(name, { layout, threads });
  }
  return found;
}

function wrongSource(name: string, what: string, remedy?: string): Error {
  return gpuError({
    kind: "kernel load",
    place: "kernels",
    what: `${name} ${what}`,
    ...(remedy === undefined ? {} : { remedy }),
    details: { file: name },
  });
}
