// hiprtc in processes of its own, on the test double, which ends its process over an unknown architecture as the real one does.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CompilePool } from "../../../src/backends/gpu/drivers/shared/compile-pool.js";
import type { CompileOptions } from "../../../src/backends/gpu/drivers/shared/driver.js";
import { detectHip } from "../../../src/backends/gpu/drivers/hip/detect.js";
import { KernelCache } from "../../../src/backends/gpu/kernels/kernel-cache.js";
import { loadKernelSource } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { KernelStore } from "../../../src/backends/gpu/kernels/kernel-store.js";
import type { NativeCompiler } from "../../../src/backends/gpu/drivers/shared/compiler.js";
import { isUnavailableDriver } from "../../../src/backends/gpu/drivers/shared/driver-library.js";
import type { GpuError } from "../../../src/errors.js";
import { describeEmulator, emulatorEnvironment, emulatorLibrary } from "../emulator/build.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { SCALE_KERNEL, writeKernels } from "./kernels.js";

const OPTIONS: CompileOptions = { name: "scale.hip", architecture: "gfx1100", waveSize: 32, defines: {} };

/** Kills this process's compilers; returns how many there were. */
function endCompilers(): number {
  const children = readdirSync("/proc/self/task").flatMap((thread) =>
    readFileSync(`/proc/self/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  const compilers = children.filter((child) =>
    readFileSync(`/proc/${child}/cmdline`, "utf8").includes("compile-child"),
  );
  for (const child of compilers) process.kill(child, "SIGKILL");
  return compilers.length;
}

/** Child processes that start meanwhile have these options. */
async function withNodeOptions<T>(options: string, task: () => Promise<T>): Promise<T> {
  const before = process.env["NODE_OPTIONS"];
  process.env["NODE_OPTIONS"] = options;
  try {
    return await task();
  } finally {
    if (before === undefined) delete process.env["NODE_OPTIONS"];
    else process.env["NODE_OPTIONS"] = before;
  }
}

async function refusal(promise: Promise<unknown>): Promise<GpuError> {
  try {
    await promise;
  } catch (error) {
    return error as GpuError;
  }
  throw new TypeError("it was not refused");
}

describeEmulator("the HIP compiler", () => {
  let folder: TemporaryFolder;
  let compiler: NativeCompiler;
  let scale: string;
  beforeAll(() => {
    folder = new TemporaryFolder();
    scale = loadKernelSource("scale", writeKernels(folder, { scale: SCALE_KERNEL })).text;
    Object.assign(process.env, emulatorEnvironment());
    const found = detectHip();
    if (isUnavailableDriver(found)) throw new TypeError(found.reason);
    ({ compiler } = found);
  });
  afterAll(() => folder[Symbol.dispose]());

  it("is the one inside the runtime, and is told apart by its file", () => {
    expect(compiler.summary).toMatch(/^hiprtc \d+\.\d+ \(.+\)$/);
    expect(compiler.identity).toMatch(/^hiprtc \d+\.\d+ HIP 6\.\S+ \(.*\) \S+ \d+ \d+$/);
  });

  it("is told apart by the comgr that it compiles with, whose package is its own", () => {
    const variable = "LD_LIBRARY_PATH";
    const before = process.env[variable];
    const identity = (): string => {
      const found = detectHip();
      return isUnavailableDriver(found) ? found.reason : found.compiler.identity;
    };
    try {
      process.env[variable] = folder.path;
      writeFileSync(folder.file("libamd_comgr.so.3"), "one release");
      const older = identity();
      expect(older).toContain("libamd_comgr.so.3");
      writeFileSync(folder.file("libamd_comgr.so.3"), "the next release");
      expect(identity()).not.toBe(older);
    } finally {
      if (before === undefined) delete process.env[variable];
      else process.env[variable] = before;
    }
  });

  it("compiles in parallel, and the same again", async () => {
    const codes = await Promise.all(
      [0, 1, 2, 3].map((define) => compiler.compile(scale, { ...OPTIONS, defines: { EXTRA: define } })),
    );
    for (const code of codes) expect(code.byteLength).toBeGreaterThan(1000);
  });

  it("rejects source that is wrong, with the place and the log", async () => {
    const error = await refusal(compiler.compile(scale.replace("a.factor", "a.fcator"), OPTIONS));
    expect(error).toMatchObject({
      code: "GPU_COMPILE",
      details: { kind: "compile", call: "hiprtcCompileProgram", number: 6, architecture: "gfx1100", file: "scale.hip" },
    });
    expect(error.message).toMatch(
      /^\[hiprtc\] hiprtcCompileProgram returned 6 for scale\.hip, gfx1100: scale\.hip:\d+:.*error.*fcator/,
    );
    expect(String(error.details["log"])).toContain("fcator");
  });

  it("survives a compiler that ends its process, says over what, and goes on", async () => {
    const error = await refusal(compiler.compile(scale, { ...OPTIONS, architecture: "gfx9999" }));
    expect(error).toMatchObject({ code: "GPU_COMPILE", details: { architecture: "gfx9999" } });
    expect(error.message).toMatch(
      /compiled scale\.hip for gfx9999 was ended by SIGABRT.*; hiprtc .* may not support gfx9999: install a newer version/,
    );
    const results = await Promise.allSettled([
      compiler.compile(scale, { ...OPTIONS, architecture: "gfx9999" }),
      compiler.compile(scale, OPTIONS),
      compiler.compile(scale, { ...OPTIONS, architecture: "gfx8888" }),
      compiler.compile(scale, OPTIONS),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected", "fulfilled"]);
  });

  it("asks another process if one has ended before it began, and gives up if none begins", async () => {
    const pool = new CompilePool("hip", emulatorLibrary(), { processes: 1 });
    const question = { source: scale, name: "scale.hip", options: ["--gpu-architecture=gfx1100", "-DWAVE=32"] };
    expect(await pool.compile(question)).toHaveProperty("code");
    // The idle process is gone, and nothing has been heard of it yet.
    expect(endCompilers()).toBeGreaterThan(0);
    expect(await pool.compile(question)).toHaveProperty("code");
    const starts = folder.file("starts");
    const fatal = folder.file("fatal.cjs");
    writeFileSync(
      fatal,
      `require("node:fs").appendFileSync(${JSON.stringify(starts)}, "x"); process.kill(process.pid, "SIGKILL");`,
    );
    expect(endCompilers()).toBeGreaterThan(0);
    expect(await withNodeOptions(`--require=${fatal}`, () => pool.compile(question))).toMatchObject({
      died: expect.stringMatching(/^(?:was ended by SIGKILL|could not be reached)/),
    });
    // The idle process and two new ones.
    expect(readFileSync(starts, "utf8")).toBe("xx");
    expect(await pool.compile(question)).toHaveProperty("code");
  });

  it("ends a compilation that takes too long", async () => {
    const pool = new CompilePool("hip", emulatorLibrary(), { processes: 1, deadlineMs: 1 });
    expect(
      await pool.compile({ source: scale, name: "scale.hip", options: ["--gpu-architecture=gfx1100", "-DWAVE=32"] }),
    ).toEqual({ died: "had not ended after 0.001 s" });
  });

  it("ends a compilation that nobody wants any more, waiting or begun, and goes on with others", async () => {
    const pool = new CompilePool("hip", emulatorLibrary(), { processes: 1 });
    const question = { source: scale, name: "scale.hip", options: ["--gpu-architecture=gfx1100", "-DWAVE=32"] };
    const unwanted = new AbortController();
    const answers = [
      pool.compile(question, unwanted.signal),
      pool.compile(question, unwanted.signal),
      pool.compile(question),
    ];
    unwanted.abort();
    answers.push(pool.compile(question, unwanted.signal));
    const [begun, waiting, wanted, late] = await Promise.all(answers);
    for (const answer of [begun, waiting, late])
      expect(answer).toMatchObject({ died: expect.stringMatching(/^was cancelled/) });
    expect(wanted).toHaveProperty("code");
    await expect(
      compiler.compile(scale, { ...OPTIONS, signal: AbortSignal.abort(new TypeError("no more")) }),
    ).rejects.toThrow("no more");
  });

  it("says so where the other process cannot load the library", async () => {
    const pool = new CompilePool("hip", "/nowhere/libamdhip64.so", { processes: 1 });
    expect(await pool.compile({ source: scale, name: "scale.hip", options: [] })).toEqual({
      unusable: "none of /nowhere/libamdhip64.so is on this machine",
    });
  });

  it("compiles nothing on a second start", async () => {
    const cache = new KernelCache(folder.file("cache"));
    const found = detectHip();
    if (isUnavailableDriver(found)) throw new TypeError(found.reason);
    using device = found.driver.open(0);
    const compiled: string[] = [];
    const open = (): KernelStore =>
      new KernelStore(device, found.compiler, {
        cache,
        sourceFolder: folder.path,
        onProgress: ({ name }) => void compiled.push(name),
      });
    using first = open();
    await first.module("scale");
    expect(compiled).toEqual(["scale", "scale"]);
    await first.written();
    using second = open();
    expect((await second.module("scale")).kernel("scale").threads).toBe(64);
    expect(compiled).toHaveLength(2);
  });
});
