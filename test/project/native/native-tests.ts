// The C++ test programs as vitest sees them; scripts/native-tests.mjs compiles and runs them.

export type NativeTarget = "host" | "aarch64";

interface NativeTests {
  nativeTestNames(): readonly string[];
  missingTool(target: NativeTarget): Promise<string | undefined>;
  buildNativeTests(target: NativeTarget): Promise<ReadonlyMap<string, string>>;
  kernelSymbols(target: NativeTarget): Promise<ReadonlyMap<string, readonly string[]>>;
  runNativeTest(
    target: NativeTarget,
    name: string,
    program: string,
  ): Promise<{ readonly exitCode: number; readonly output: string }>;
}

/** The time limit for compiling or running everything, with an empty cache, on a busy machine. */
export const LIMIT_MS = 1_800_000;

export const nativeTests = (await import(
  new URL("../../../scripts/native-tests.mjs", import.meta.url).href
)) as NativeTests;
