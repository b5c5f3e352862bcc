// The only file of the GPU backend that imports Koffi: opens shared libraries, binds functions of tables of C
// prototypes, and knows the addresses of memory. Every pointer, also one that a function writes through, crosses as a
// BigInt address, so that no call converts or allocates anything.

import koffi, { type LibraryHandle } from "koffi";
import { readFileSync, realpathSync, statSync } from "node:fs";
import { basename } from "node:path";

type NativeArgument = bigint | number | string | readonly string[] | null;

/** A function of a library; gives the library's status number. */
export type NativeCall<Arguments extends readonly NativeArgument[]> = (...args: Arguments) => number;

export interface NativeLibrary {
  /** The name it was found under. */
  readonly name: string;
  readonly handle: LibraryHandle;
}

/** None of the names is on this machine, or one is and does not work. */
interface MissingLibrary {
  readonly missing: "absent" | "broken";
  readonly reason: string;
}

// Exactly this when the file itself is not there; a file that lacks another library is reported with that one's name.
const NOT_THERE = /^Failed to load shared library: (?:cannot open shared object file: )?No such file or directory$/;

/** Kept for good: a driver that is unloaded takes its threads' code away under them. */
const opened = new Map<string, NativeLibrary>();

/** The first of the names that loads. */
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
      if (!NOT_THERE.test(message))
        broken ??= `${name} does not load: ${message.replace("Failed to load shared library: ", "")}`;
    }
  }
  if (broken !== undefined) return { missing: "broken", reason: broken };
  return { missing: "absent", reason: `none of ${names.join(", ")} is on this machine` };
}

/** As in dlfcn.h of every Linux: functions are bound when they are first called. */
const RTLD_LAZY = 1;

/**
 * Loads the first of the names that loads on a thread of Node's pool, so that `openLibrary` finds it in memory: a large
 * library takes from tens of milliseconds to seconds. Resolves in any case.
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
    // A system without such a function loads it when it is opened.
  }
}

interface LoaderCall {
  readonly async: (
    name: string,
    flags: number,
    done: (error: Error | null | undefined, handle: bigint | null) => void,
  ) => void;
}

/** C prototypes by the names that this project gives the functions. */
export type Prototypes<Calls> = Readonly<Record<keyof Calls & string, string>>;

export interface BoundCalls<Calls> {
  readonly calls: Calls;
  /** The library's own names, for messages. */
  readonly symbols: Readonly<Record<keyof Calls & string, string>>;
}

/** The table's functions, or the names of those that the library lacks. */
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

export function hasSymbol({ handle }: NativeLibrary, symbol: string): boolean {
  try {
    return handle.symbol(symbol) !== null;
  } catch {
    return false;
  }
}

/** The library's own name for a function. */
export function symbolOf(prototype: string): string {
  const symbol = /(\w+)\s*\(/.exec(prototype)?.[1];
  if (symbol === undefined) throw new TypeError(`not a prototype: ${prototype}`);
  return symbol;
}

/** The same call on a thread of Node's pool. */
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
 * Of a buffer's bytes, which V8 keeps outside its heap and never moves; good for as long as the buffer is referenced.
 * Small arrays do lie in the heap until someone asks for their buffer, as this does.
 */
export function addressOf(bytes: ArrayBuffer | Uint8Array<ArrayBuffer>): bigint {
  return bytes instanceof ArrayBuffer ? koffi.address(bytes) : koffi.address(bytes.buffer) + BigInt(bytes.byteOffset);
}

/** An ArrayBuffer over memory that a library owns: using it after that has been freed ends the process. */
export function memoryViewOf(address: bigint, sizeBytes: number): ArrayBuffer {
  return koffi.view(address, sizeBytes);
}

/** Text that a library keeps, NUL at its end; empty for no text. */
export function textAt(address: bigint | null): string {
  return address === null || address === 0n ? "" : koffi.decode.string(address);
}

/** Memory for what functions write through pointers: read right after the call, before the next one. */
export class Outputs {
  readonly view: DataView;
  readonly address: bigint;
  readonly #buffer: ArrayBuffer;

  constructor(sizeBytes: number) {
    this.#buffer = new ArrayBuffer(sizeBytes);
    this.view = new DataView(this.#buffer);
    this.address = addressOf(this.#buffer);
  }

  /** A handle or an address at a multiple of eight bytes. */
  pointer(index = 0): bigint {
    return this.view.getBigUint64(8 * index, true);
  }

  /** A size, which this project takes for exact. */
  size(index = 0): number {
    return Number(this.view.getBigUint64(8 * index, true));
  }

  int(byteOffset = 0): number {
    return this.view.getInt32(byteOffset, true);
  }

  /** Zeros, so that a call that fails without writing leaves nothing of the last one. */
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

/** A library's file with its size and time: two builds of one version are told apart by them. */
export interface LibraryFile {
  /** Of the file itself, whatever links lead to it. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Of a loaded library; undefined if the system does not tell. */
export function libraryFile({ name }: NativeLibrary): LibraryFile | undefined {
  try {
    const path = name.includes("/") ? name : mappedPath(name);
    return path === undefined ? undefined : libraryFileAt(path);
  } catch {
    return undefined;
  }
}

/** Undefined if there is none. */
export function libraryFileAt(path: string): LibraryFile | undefined {
  try {
    const real = realpathSync(path);
    const { size, mtimeMs } = statSync(real);
    return { path: real, sizeBytes: size, modifiedMs: Math.round(mtimeMs) };
  } catch {
    return undefined;
  }
}

/** The loader's own name for the file may be a link's target: libnvrtc.so.12 is mapped as libnvrtc.so.12.4.127. */
function mappedPath(name: string): string | undefined {
  const maps = readFileSync("/proc/self/maps", "utf8");
  const start = name.replace(/\.so\b.*$/, ".so");
  for (const line of maps.split("\n")) {
    const path = line.slice(line.indexOf("/"));
    if (line.includes("/") && basename(path).startsWith(start)) return path;
  }
  return undefined;
}
