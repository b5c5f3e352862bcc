// The library itself, without threads: that it dies with its reason, and only once.

import { describe, expect, test } from "vitest";
import { type CompiledGrammar, GrammarLibrary, LibraryFailure } from "./library.js";

const compile = (library: GrammarLibrary, text: string): Promise<CompiledGrammar> =>
  library.use(async ({ GrammarCompiler, TokenizerInfo }) => {
    const info = await TokenizerInfo.createTokenizerInfo(["a", "b", ""], "raw", false, 3, [2]);
    return (await GrammarCompiler.createGrammarCompiler(info, false)).compileGrammar(text);
  });
const failure = (promise: Promise<unknown>): Promise<LibraryFailure | undefined> =>
  promise.then(
    () => undefined,
    (error: unknown) => error as LibraryFailure,
  );

describe("the library", () => {
  test("compiles a grammar, and many copies live side by side", async () => {
    for (const library of [new GrammarLibrary(), new GrammarLibrary()]) {
      await compile(library, 'root ::= "a" "b"');
      expect(library.failed).toBe(false);
    }
  });

  test("rejects what it does not understand in its own words, and is dead from then on", async () => {
    const library = new GrammarLibrary();
    const first = await failure(compile(library, "root ::= missing"));
    expect(first).toBeInstanceOf(LibraryFailure);
    expect(first).toMatchObject({ limit: false, message: expect.stringContaining('Rule "missing" is not defined') });
    expect(first?.message).not.toContain("/");
    expect(library.failed).toBe(true);
    expect(await failure(compile(library, 'root ::= "a"'))).toBe(first);
  });

  test("rejects nesting that overruns its stack, which it would not see itself", async () => {
    const nested = (levels: number): string => `root ::= ${"(".repeat(levels)}"a"${' | "b")'.repeat(levels)}`;
    expect(await failure(compile(new GrammarLibrary(), nested(100)))).toBeUndefined();
    expect(await failure(compile(new GrammarLibrary(), nested(170)))).toMatchObject({ limit: true, message: "it is nested too deeply" });
  });

  test("reads classes of bytes as they are printed for it", async () => {
    const library = new GrammarLibrary();
    const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)) as unknown as string[];
    const allowed = await library.use(async ({ GrammarCompiler, GrammarMatcher, TokenizerInfo }) => {
      const info = await TokenizerInfo.createTokenizerInfo([...bytes, ""], "raw", false, 257, [256]);
      const compiled = await (await GrammarCompiler.createGrammarCompiler(info, false)).compileGrammar("root ::= [\\u00c3\\u00c3] [\\u00a0-\\u00bf] | [a]");
      const matcher = await GrammarMatcher.createGrammarMatcher(compiled);
      const next = async (): Promise<readonly number[]> => {
        const mask = await matcher.getNextTokenBitmask();
        return bytes.flatMap((_, byte) => (((mask[byte >>> 5] as number) >>> (byte & 31)) & 1 ? [byte] : []));
      };
      const first = await next();
      matcher.acceptToken(0xc3);
      return [first, await next()];
    });
    expect(allowed).toEqual([[0x61, 0xc3], Array.from({ length: 32 }, (_, index) => 0xa0 + index)]);
  });
});
