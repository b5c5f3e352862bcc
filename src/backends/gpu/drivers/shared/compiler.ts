// A run-time compiler as the backend sees it: in this process it is asked for its version, once; it compiles in child
// processes, because some compilers terminate their process on an unknown architecture.

import { basename } from "node:path";
import { CompilePool, type PoolAnswer } from "./compile-pool.js";
import type { CompileOptions, GpuCompiler } from "./driver.js";
import { gpuError } from "./gpu-error.js";
import type { CompilerFlavour } from "./compiler-flavour.js";
import {
  bindLibrary,
  type UnavailableDriver,
  findLibrary,
  isUnavailableDriver,
  type WantedLibrary,
} from "./driver-library.js";
import { type LibraryFile, libraryFile, type NativeLibrary, Outputs, symbolOf } from "./ffi.js";
import { recallCompiler, rememberCompiler } from "./known-compilers.js";

/** NVRTC's and hiprtc's status for an unknown option, and so for an unknown architecture. */
const INVALID_OPTION = 5;
const MAX_SHOWN_CHARACTERS = 400;

/** NVRTC or hiprtc, compiling in child processes. */
export class NativeCompiler implements GpuCompiler {
  readonly identity: string;
  readonly release: string;
  /** Human-readable: name, version and file. */
  readonly summary: string;
  readonly #flavour: CompilerFlavour;
  readonly #pool: CompilePool;

  private constructor(flavour: CompilerFlavour, { library, version, file }: CompilerIdentity, release: string) {
    this.release = `${flavour.name} ${version}`;
    this.summary = `${flavour.name} ${version} (${library})`;
    const build = file === undefined ? library : `${basename(file.path)} ${file.sizeBytes} ${file.modifiedMs}`;
    this.identity = `${flavour.name} ${version} ${release} ${build}`;
    this.#flavour = flavour;
    this.#pool = poolOf(this.identity, flavour, library);
  }

  /** Finds the compiler that `wanted` describes; it is loaded only if no earlier process has recorded its version. */
  static find(flavour: CompilerFlavour, wanted: WantedLibrary, release = ""): NativeCompiler | UnavailableDriver {
    const known = recallCompiler(wanted);
    if (known !== undefined) return new NativeCompiler(flavour, known, release);
    const library = findLibrary(wanted);
    if (isUnavailableDriver(library)) return { ...library, expected: false };
    const identity = learn(flavour, library);
    if (isUnavailableDriver(identity)) return identity;
    if (identity.file !== undefined) rememberCompiler(wanted, { ...identity, file: identity.file });
    return new NativeCompiler(flavour, identity, release);
  }

  /** Uses a loaded library; `release` distinguishes builds that report the same version. */
  static open(flavour: CompilerFlavour, library: NativeLibrary, release = ""): NativeCompiler | UnavailableDriver {
    const identity = learn(flavour, library);
    return isUnavailableDriver(identity) ? identity : new NativeCompiler(flavour, identity, release);
  }

  async compile(source: string, options: CompileOptions): Promise<Uint8Array> {
    const answer = await this.#pool.compile(
      { source, name: options.name, options: this.#flavour.options(options) },
      options.signal,
    );
    options.signal?.throwIfAborted();
    if ("code" in answer) return answer.code;
    throw this.#error(answer, options);
  }

  #error(
    answer: Exclude<PoolAnswer, { readonly code: Uint8Array }>,
    { name, architecture, defines }: CompileOptions,
  ): Error {
    const details = { file: name, architecture, defines, compiler: this.summary };
    const place = this.#flavour.name;
    if ("unusable" in answer) return gpuError({ kind: "compile", place, what: answer.unusable, details });
    if ("died" in answer) {
      return gpuError({
        kind: "compile",
        place,
        what: `the process that compiled ${name} for ${architecture} ${answer.died}`,
        remedy: `${this.summary} may not support ${architecture}: install a newer version`,
        details: { ...details, call: symbolOf(this.#flavour.prototypes.compileProgram) },
      });
    }
    const { call, number, log } = answer.problem;
    return gpuError({
      kind: "compile",
      place,
      what: `${call} returned ${number} for ${name}, ${architecture}${shownLog(log)}`,
      ...(number === INVALID_OPTION
        ? { remedy: `${this.summary} does not seem to support ${architecture}: install a newer version` }
        : {}),
      details: { ...details, call, number, log },
    });
  }
}

interface CompilerIdentity {
  /** The name under which it was loaded. */
  readonly library: string;
  readonly version: string;
  readonly file: LibraryFile | undefined;
}

function learn(flavour: CompilerFlavour, library: NativeLibrary): CompilerIdentity | UnavailableDriver {
  const bound = bindLibrary(flavour.name, library, flavour.prototypes, "compile");
  if (isUnavailableDriver(bound)) return bound;
  const outputs = new Outputs(16);
  const number = bound.calls.version(outputs.clear().address, outputs.address + 8n);
  const version = number === 0 ? `${outputs.int(0)}.${outputs.int(8)}` : "of unknown version";
  return { library: library.name, version, file: libraryFile(library) };
}

const pools = new Map<string, CompilePool>();

/** Backends of this process share one pool per compiler. */
function poolOf(identity: string, { kind }: CompilerFlavour, library: string): CompilePool {
  const pool = pools.get(identity) ?? new CompilePool(kind, library);
  pools.set(identity, pool);
  return pool;
}

/** The first error; the details have the whole log. */
function shownLog(log: string): string {
  const lines = log.split("\n").map((line) => line.trim());
  const first = lines.find((line) => /\berror\b/i.test(line)) ?? lines.find((line) => line !== "");
  return first === undefined ? "" : `: ${first.slice(0, MAX_SHOWN_CHARACTERS)}`;
}
