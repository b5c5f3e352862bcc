// The only file of the GPU backend that imports Koffi: opens shared libraries, binds functions by their C prototypes,
// and converts between memory and addresses. Every pointer, including those that a function writes through, is passed
// as a BigInt address, so that no call converts or allocates anything.

import koffi, { type LibraryHandle } from "koffi";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, isAbsolute } from "node:path";

type NativeArgument = bigint | number | string | readonly string[] | null;

/** A function of a library that returns a status. */
export type NativeCall<Arguments extends readonly NativeArgument[]> = (...args: Arguments) => number;

/** A shared library that is loaded for the rest of the process. */
export interface NativeLibrary {
  /** The name under which it was found. */
  readonly name: string;
  readonly handle: LibraryHandle;
}

/** Why no library was loaded: none of the names exists on this machine, or one exists and does not work. */
interface MissingLibrary {
  readonly missing: "absent" | "broken";
  readonly reason: string;
}

// The message if the file itself does not exist; a missing dependency is reported with the dependency's name.
const NOT_THERE = /^Failed to load shared library: (?:cannot open shared object file: )?No such file or directory$/;

/** Windows words its messages in the user's language: there, only a file that exists can be broken. */
function isAbsent(name: string, message: string): boolean {
  if (process.platform === "win32") return !isAbsolute(name) || !existsSync(name);
  return NOT_THERE.test(message);
}

/** Never unloaded: unloading a driver would remove code that its threads are running. */
const opened = new Map<string, NativeLibrary>();

/** Loads the first of the names that can be loaded. */
export function openLibrary(names: readonly string[]): NativeLibrary | MissingLibrary {
  let broken: string | undefined;
  for (const name of names) {
    const known = opened.get(name);
    if (known !== undefined) return known;
    try {
      const library = { name, handle: koffi.load(name, { lazy: true }) };
      opened.set(name, library);
      return library;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (!isAbsent(name, message))
        broken ??= `${name} does not load: ${message.replace("Failed to load shared library: ", "")}`;
    }
  }
  if (broken !== undefined) return { missing: "broken", reason: broken };
  return { missing: "absent", reason: `none of ${names.join(", ")} is on this machine` };
}

/** From dlfcn.h on Linux: functions are bound at their first call. */
const RTLD_LAZY = 1;

/**
 * Loads the first of the names that can be loaded, on a thread of Node's pool, so that `openLibrary` finds it in
 * memory: a large library takes tens of milliseconds to seconds. Always resolves.
 */
export async function loadInBackground(names: readonly string[]): Promise<void> {
  try {
    const open = koffi.load(null).func("void *dlopen(const char *name, int flags)") as unknown as LoaderCall;
    for (const name of names) {
      if (opened.has(name)) return;
      const handle = await new Promise<bigint | null>((resolve, reject) => {
        open.async(name, RTLD_LAZY, (error, found) =>
          error === null || error === undefined ? resolve(found) : reject(error),
        );
      });
      if (handle !== null && handle !== 0n) return;
    }
  } catch {
    // Without dlopen the library is loaded when it is opened.
  }
}

interface LoaderCall {
  readonly async: (
    name: string,
    flags: number,
    done: (error: Error | null | undefined, handle: bigint | null) => void,
  ) => void;
}

/** C prototypes by this project's names for the functions. */
export type Prototypes<Calls> = Readonly<Record<keyof Calls & string, string>>;

/** The bound functions of a table. */
export interface BoundCalls<Calls> {
  readonly calls: Calls;
  /** The functions' symbols in the library, for messages. */
  readonly symbols: Readonly<Record<keyof Calls & string, string>>;
}

/** Binds the functions of a table, or returns the symbols that the library lacks. */
export function bindCalls<Calls extends object>(
  library: NativeLibrary,
  prototypes: Prototypes<Calls>,
): BoundCalls<Calls> | { readonly lacking: readonly string[] } {
  const calls: Record<string, unknown> = {};
  const symbols: Record<string, string> = {};
  const lacking: string[] = [];
  for (const [name, prototype] of Object.entries<string>(prototypes)) {
    symbols[name] = symbolOf(prototype);
    if (hasSymbol(library, symbols[name])) calls[name] = library.handle.func(prototype);
    else lacking.push(symbols[name]);
  }
  if (lacking.length > 0) return { lacking };
  return { calls: calls as Calls, symbols: symbols as BoundCalls<Calls>["symbols"] };
}

/** Whether a library exports this symbol. */
export function hasSymbol({ handle }: NativeLibrary, symbol: string): boolean {
  try {
    return handle.symbol(symbol) !== null;
  } catch {
    return false;
  }
}

/** The symbol in a C prototype. */
export function symbolOf(prototype: string): string {
  const symbol = /(\w+)\s*\(/.exec(prototype)?.[1];
  if (symbol === undefined) throw new TypeError(`not a prototype: ${prototype}`);
  return symbol;
}

/** Makes the call on a thread of Node's pool. */
export function inBackground<Arguments extends readonly NativeArgument[]>(
  call: NativeCall<Arguments>,
  ...args: Arguments
): Promise<number> {
  const { async: start } = call as unknown as { readonly async: (...args: unknown[]) => void };
  return new Promise((resolve, reject) => {
    start(...args, (error: unknown, result: number) => {
      if (error === null || error === undefined) resolve(result);
      else reject(error instanceof Error ? error : new TypeError(String(error)));
    });
  });
}

/**
 * Address of a buffer's bytes, which V8 keeps outside its heap and never moves; valid while the buffer is referenced.
 * Small arrays are inside the heap until their `buffer` is read, as this function does.
 */
export function addressOf(bytes: ArrayBuffer | Uint8Array<ArrayBuffer>): bigint {
  return bytes instanceof ArrayBuffer ? koffi.address(bytes) : koffi.address(bytes.buffer) + BigInt(bytes.byteOffset);
}

/** An ArrayBuffer over memory that a library owns; using it after the memory is freed crashes the process. */
export function memoryViewOf(address: bigint, sizeBytes: number): ArrayBuffer {
  return koffi.view(address, sizeBytes);
}

/** Reads NUL-terminated text that a library owns; empty for a null pointer. */
export function textAt(address: bigint | null): string {
  return address === null || address === 0n ? "" : koffi.decode.string(address);
}

/** Memory that functions write results to; read it right after the call, before the next one. */
export class Outputs {
  readonly view: DataView;
  readonly address: bigint;
  readonly #buffer: ArrayBuffer;

  constructor(sizeBytes: number) {
    this.#buffer = new ArrayBuffer(sizeBytes);
    this.view = new DataView(this.#buffer);
    this.address = addressOf(this.#buffer);
  }

  /** The handle or address in the eight-byte slot `index`. */
  pointer(index = 0): bigint {
    return this.view.getBigUint64(8 * index, true);
  }

  /** The size in slot `index`, as a number that is assumed to be exact. */
  size(index = 0): number {
    return Number(this.view.getBigUint64(8 * index, true));
  }

  int(byteOffset = 0): number {
    return this.view.getInt32(byteOffset, true);
  }

  /** Writes zeros, so that a call that fails without writing leaves no earlier result. */
  clear(): this {
    new Uint8Array(this.#buffer).fill(0);
    return this;
  }

  text(byteOffset: number, maxBytes: number): string {
    const bytes = Buffer.from(this.#buffer, byteOffset, maxBytes);
    const end = bytes.indexOf(0);
    return bytes.toString("utf8", 0, end === -1 ? maxBytes : end);
  }
}

/** A library's file with its size and modification time, which distinguish two builds of one version. */
export interface LibraryFile {
  /** Path of the file itself, with links resolved. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** The file of a loaded library; undefined if the system does not report it. */
export function libraryFile({ name }: NativeLibrary): LibraryFile | undefined {
  try {
    const path = name.includes("/") || isAbsolute(name) ? name : mappedPath(name);
    return path === undefined ? undefined : libraryFileAt(path);
  } catch {
    return undefined;
  }
}

/** The file at a path; undefined if there is none. */
export function libraryFileAt(path: string): LibraryFile | undefined {
  try {
    const real = realpathSync(path);
    const { size, mtimeMs } = statSync(real);
    return { path: real, sizeBytes: size, modifiedMs: Math.round(mtimeMs) };
  } catch {
    return undefined;
  }
}

/** The mapped path may be a link's target: libnvrtc.so.12 is mapped as libnvrtc.so.12.4.127. */
function mappedPath(name: string): string | undefined {
  const maps = readFileSync("/proc/self/maps", "utf8");
  const start = name.replace(/\.so\b.*$/, ".so");
  for (const line of maps.split("\n")) {
    const path = line.slice(line.indexOf("/"));
    if (line.includes("/") && basename(path).startsWith(start)) return path;
  }
  return undefined;
}
