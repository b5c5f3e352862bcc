// The library (web-xgrammar) inside a thread. Its package calls CommonJS code an ES module, which Node refuses, so its
// file is compiled here as the function that it is; and it is given a console and a view of WebAssembly of its own, since
// it dies of what it does not understand: the reason is what it prints, and what is left of it is not to be used again.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { compileFunction } from "node:vm";
import type * as XGrammar from "@mlc-ai/web-xgrammar";
import type { WasmMemory } from "../worker/wasm-memory.js";

export type { CompiledGrammar, GrammarCompiler, GrammarMatcher, TokenizerInfo } from "@mlc-ai/web-xgrammar";

/** The library is dead. */
export class LibraryFailure extends Error {
  /** Memory or stack ran out, rather than the library finding fault with what it was given. */
  readonly limit: boolean;

  constructor(message: string, limit: boolean) {
    super(message);
    this.limit = limit;
  }
}

const PACKAGE = "@mlc-ai/web-xgrammar";
const MAX_MESSAGES = 20;
/** As Emscripten lays memory out: a stack of so much, growing down towards the program's data, with nothing to stop it. */
const STACK_BYTES = 65_536;
/** The end of the stack is filled with this, to see whether anything came so far. */
const GUARD_BYTES = 2048;
const GUARD_WORD = 0x5aa55aa5;

type LibraryFunction = (...parameters: readonly unknown[]) => void;
let source: { readonly file: string; readonly run: LibraryFunction } | undefined;

/** The file's own function, compiled once for all copies of the library. Without `process` it takes no note of Node. */
function libraryFunction(): { readonly file: string; readonly run: LibraryFunction } {
  if (source !== undefined) return source;
  const file = createRequire(import.meta.url).resolve(PACKAGE);
  const parameters = ["exports", "module", "require", "__filename", "process", "console", "WebAssembly"];
  source = { file, run: compileFunction(readFileSync(file, "utf8"), parameters, { filename: file }) as LibraryFunction };
  return source;
}

export class GrammarLibrary {
  readonly #module: typeof XGrammar;
  readonly #messages: string[];
  #memory: WasmMemory | undefined;
  #guardStart = 0;
  #memoryRefused = false;
  #failure: LibraryFailure | undefined;

  constructor() {
    const { file, run } = libraryFunction();
    const holder = { exports: {} };
    const messages: string[] = [];
    const say = (...words: readonly unknown[]): void => {
      if (messages.length < MAX_MESSAGES) messages.push(words.join(" "));
    };
    run.call(globalThis, holder.exports, holder, createRequire(file), file, undefined, { log: say, warn: say, error: say }, this.#wasm());
    this.#messages = messages;
    this.#module = holder.exports as typeof XGrammar;
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /** Does something with the library; where that kills it, throws a LibraryFailure, now and ever after. */
  async use<Result>(what: (library: typeof XGrammar) => Result | Promise<Result>): Promise<Result> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#messages.length = 0;
    let result: Result;
    try {
      result = await what(this.#module);
    } catch (error) {
      throw (this.#failure = this.#explain(error));
    }
    if (this.#stackRanOut()) throw (this.#failure = new LibraryFailure("it is nested too deeply", true));
    return result;
  }

  #explain(error: unknown): LibraryFailure {
    if (this.#memoryRefused) return new LibraryFailure("it needs more memory than it may have", true);
    if (this.#stackRanOut()) return new LibraryFailure("it is nested too deeply", true);
    const fatal = this.#messages.find((message) => message.startsWith("[FATAL]"));
    // The rest of the line is where in the library's own files it was found.
    if (fatal !== undefined) return new LibraryFailure(fatal.replace(/^\[FATAL\] \S+:\d+: /, "").slice(0, 400), false);
    return new LibraryFailure(`the library failed: ${error instanceof Error ? error.message : String(error)}`, true);
  }

  /** WebAssembly, telling of the memory that is made. */
  #wasm(): object {
    const { WebAssembly: real } = globalThis as unknown as { readonly WebAssembly: { instantiate(...parameters: readonly unknown[]): Promise<object> } };
    const own = Object.create(real) as { instantiate: typeof real.instantiate };
    own.instantiate = async (...parameters) => {
      const result = (await real.instantiate(...parameters)) as { readonly instance?: { readonly exports: object }; readonly exports?: object };
      const exports = result.instance?.exports ?? result.exports ?? {};
      const memory = (Object.values(exports) as readonly unknown[]).find(isMemory);
      if (memory !== undefined) this.#watch(memory, stackTop(parameters[0]));
      return result;
    };
    return own;
  }

  #watch(memory: WasmMemory, top: number | undefined): void {
    this.#memory = memory;
    // The thread's limit refuses growth by throwing; the library then says no more than that it died.
    const grow = memory.grow.bind(memory);
    memory.grow = (pages) => {
      try {
        return grow(pages);
      } catch (error) {
        this.#memoryRefused = true;
        throw error;
      }
    };
    if (top === undefined || top < STACK_BYTES) return;
    const guard = new Int32Array(memory.buffer, top - STACK_BYTES, GUARD_BYTES / 4);
    // Another layout of memory than the one that is known has no guard.
    if (!guard.every((word) => word === 0)) return;
    guard.fill(GUARD_WORD);
    this.#guardStart = top - STACK_BYTES;
  }

  #stackRanOut(): boolean {
    if (this.#memory === undefined || this.#guardStart === 0) return false;
    return !new Int32Array(this.#memory.buffer, this.#guardStart, GUARD_BYTES / 4).every((word) => word === GUARD_WORD);
  }
}

function isMemory(value: unknown): value is WasmMemory {
  return typeof value === "object" && value !== null && "grow" in value && (value as WasmMemory).buffer instanceof ArrayBuffer;
}

const GLOBAL_SECTION = 6;
const HEADER_BYTES = 8;
/** i32, mutable, i32.const */
const STACK_POINTER = [0x7f, 0x01, 0x41] as const;

/** The initial value of a module's first global, where that is a variable of 32 bits: the stack pointer. */
function stackTop(module: unknown): number | undefined {
  if (!(module instanceof Uint8Array)) return undefined;
  let at = HEADER_BYTES;
  const number = (): number => {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = module[at++] ?? 0;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < module.length) {
    const section = module[at++];
    const end = number() + at;
    if (section === GLOBAL_SECTION) {
      number();
      if (!STACK_POINTER.every((byte, index) => module[at + index] === byte)) return undefined;
      at += STACK_POINTER.length;
      return number();
    }
    at = end;
  }
  return undefined;
}
