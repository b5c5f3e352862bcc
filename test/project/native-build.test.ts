// How the native addon comes to be: the scripts on a small package of their own with a stand-in for node-gyp, and what
// must agree between binding.gyp, the test builds and the published package.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const NATIVE = join("native", "cpu");
const ADDON = join(NATIVE, "build", "Release", "rocmforge_cpu.node");
const PREBUILT = join("node_modules", "@rocmforge", `cpu-${process.platform}-${process.arch}`, "rocmforge_cpu.node");
const STAMP = join(dirname(ADDON), "sources.sha256");
const FAILURE = join(NATIVE, "build-failure.json");
const LOCK = join(NATIVE, "build-lock");
/** No process has an id this large. */
const NO_PROCESS = "999999999";

/** Replaces node-gyp: records its command, then builds or fails as the environment says. */
const FAKE_NODE_GYP = `
const { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } = require("node:fs");
const command = process.argv[2];
appendFileSync("../../gyp-calls.txt", command + "\\n");
if (existsSync("build/Release/sources.sha256")) { console.error("there is a stamp while the addon is built"); process.exit(1); }
if (command === "rebuild") rmSync("build", { recursive: true, force: true });
if (process.env.FAKE_GYP_LOCK) writeFileSync("build-lock", process.env.FAKE_GYP_LOCK);
if (process.env.FAKE_GYP_FAILURE) { console.error(process.env.FAKE_GYP_FAILURE); process.exit(1); }
if (command !== "configure") {
  mkdirSync("build/Release", { recursive: true });
  writeFileSync("build/Release/rocmforge_cpu.node", process.env.FAKE_GYP_ADDON ?? "loads");
}
`;

/** Lets a text file pass as a shared library in every process of the scripts. */
const FAKE_LOADER = `
require("node:module")._extensions[".node"] = (module, path) => {
  if (require("node:fs").readFileSync(path, "utf8") !== "loads") throw new Error("invalid ELF header");
};
`;

let folder: TemporaryFolder;

function write(name: string, text: string): void {
  mkdirSync(dirname(folder.file(name)), { recursive: true });
  writeFileSync(folder.file(name), text);
}

function environment(env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  return {
    ...process.env,
    npm_config_node_gyp: folder.file("node-gyp.cjs"),
    NODE_OPTIONS: `--require ${folder.file("loader.cjs")}`,
    ROCMFORGE_ADDON: "",
    ...env,
  };
}

function run(script: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join("scripts", script), ...args], {
    cwd: folder.path,
    encoding: "utf8",
    env: environment(env),
  });
  return { status, stdout, stderr };
}

/** Like `run`, in parallel with others. */
async function startInstall(): Promise<unknown> {
  const [status] = (await once(
    spawn(process.execPath, [join("scripts", "install-addon.mjs")], { cwd: folder.path, env: environment() }),
    "close",
  )) as unknown[];
  return status;
}

const install = (args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) =>
  run("install-addon.mjs", args, env);
const calls = (): string[] =>
  existsSync(folder.file("gyp-calls.txt")) ? readFileSync(folder.file("gyp-calls.txt"), "utf8").trim().split("\n") : [];
const failure = (): unknown => JSON.parse(readFileSync(folder.file(FAILURE), "utf8"));

beforeEach(() => {
  folder = new TemporaryFolder();
  cpSync(join(ROOT, "scripts"), folder.file("scripts"), { recursive: true });
  write("package.json", `{ "type": "module" }`);
  write("node-gyp.cjs", FAKE_NODE_GYP);
  write("loader.cjs", FAKE_LOADER);
  write(join(NATIVE, "binding.gyp"), "{}");
  for (const part of ["binding", "engine", "instructions", "kernels"])
    write(join(NATIVE, part, "unit.cpp"), `// ${part}\n`);
});

afterEach(() => {
  folder[Symbol.dispose]();
});

describe("scripts/install-addon.mjs", () => {
  it("builds once for each state of the sources", () => {
    expect(install()).toMatchObject({
      status: 0,
      stdout: "",
      stderr: expect.stringMatching(/^rocmforge: building the native addon .* \d\.\d s\n$/),
    });
    install();
    expect(calls()).toEqual(["configure", "build"]);
    write(join(NATIVE, "kernels", "simd", "lanes.h"), "// new\n");
    install();
    expect(calls()).toHaveLength(4);
    write(join(NATIVE, "test", "lanes-test.cpp"), "// no part of the addon\n");
    install();
    expect(calls()).toHaveLength(4);
  });

  it("rebuilds on request, and if the existing addon does not load", () => {
    install();
    expect(install(["--anew"]).status).toBe(0);
    write(ADDON, "for another machine");
    install();
    expect(calls()).toEqual(["configure", "build", "rebuild", "configure", "build"]);
  });

  it("leaves the building to scripts that do it themselves", () => {
    expect(install([], { ROCMFORGE_ADDON: "later" })).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(calls()).toEqual([]);
  });

  it("does nothing for a package without the sources", () => {
    rmSync(folder.file(NATIVE), { recursive: true });
    expect(install()).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(install(["--anew"])).toMatchObject({ status: 1, stderr: expect.stringContaining("no sources") });
  });

  it("takes the platform package's addon of the same sources that loads, and no other", () => {
    install();
    const stamp = readFileSync(folder.file(STAMP), "utf8");
    rmSync(folder.file(join(NATIVE, "build")), { recursive: true });
    write(PREBUILT, "loads");
    write(join(dirname(PREBUILT), "sources.sha256"), stamp);
    install();
    expect(calls()).toHaveLength(2);
    write(PREBUILT, "for another C library");
    install();
    expect(calls()).toHaveLength(4);
    rmSync(folder.file(join(NATIVE, "build")), { recursive: true });
    write(PREBUILT, "loads");
    write(join(dirname(PREBUILT), "sources.sha256"), "of other sources");
    install();
    expect(calls()).toHaveLength(6);
  });

  it("removes an old build that the loader would take before the prebuilt addon", () => {
    install();
    write(PREBUILT, "loads");
    cpSync(folder.file(STAMP), folder.file(join(dirname(PREBUILT), "sources.sha256")));
    write(STAMP, "of other sources");
    expect(install().status).toBe(0);
    expect(calls()).toHaveLength(2);
    expect(existsSync(folder.file(ADDON))).toBe(false);
    expect(install()).toEqual({ status: 0, stdout: "", stderr: "" });
  });

  it("does not fail the install when the build fails, says why in one line and writes it down", () => {
    install();
    write(join(NATIVE, "engine", "unit.cpp"), "// changed\n");
    const { status, stdout, stderr } = install([], { FAKE_GYP_FAILURE: "gyp ERR! stack Error: not found: make" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
    expect(stderr.trimEnd().split("\n").at(-1)).toMatch(
      /^rocmforge: warning: .*make is missing; .*apt-get install python3 make g\+\+.*rocmforge doctor --build/,
    );
    expect(failure()).toMatchObject({ kind: "tools", reason: "make is missing" });
    expect(existsSync(folder.file(ADDON))).toBe(false);
    install();
    expect(existsSync(folder.file(FAILURE))).toBe(false);
  });

  it("fails with the compiler's words when the build was asked for", () => {
    const { status, stderr } = install(["--anew"], { FAKE_GYP_FAILURE: "../engine/unit.cpp:3:1: error: expected ';'" });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^\.\.\/engine\/unit\.cpp:3:1: error: expected ';'$/m);
    expect(failure()).toMatchObject({
      kind: "sources",
      reason: "the C++ sources did not build: ../engine/unit.cpp:3:1: error: expected ';'",
    });
  });

  it("rejects an addon that was built and does not load", () => {
    expect(install(["--anew"], { FAKE_GYP_ADDON: "broken" }).status).toBe(1);
    expect(failure()).toMatchObject({ reason: expect.stringContaining("does not load") });
  });

  it("keeps an addon of these sources when the tools for another are gone, and no other", () => {
    install();
    const lost = { FAKE_GYP_FAILURE: "gyp ERR! stack Error: not found: make" };
    expect(install(["--anew"], lost)).toMatchObject({ status: 1, stderr: expect.stringContaining("make is missing") });
    expect(existsSync(folder.file(FAILURE))).toBe(false);
    expect(install()).toEqual({ status: 0, stdout: "", stderr: "" });
    expect(install(["--anew"], { FAKE_GYP_FAILURE: "unit.cpp:1: error: broken" }).status).toBe(1);
    expect(existsSync(folder.file(ADDON))).toBe(false);
    install();
    write(join(NATIVE, "engine", "unit.cpp"), "// changed\n");
    expect(install(["--anew"], lost).status).toBe(1);
    expect(existsSync(folder.file(ADDON))).toBe(false);
    expect(failure()).toMatchObject({ kind: "tools" });
  });
});

describe("the lock of a build", () => {
  const lock = (): string | undefined =>
    existsSync(folder.file(LOCK)) ? readFileSync(folder.file(LOCK), "utf8") : undefined;

  it.each([
    ["was killed", NO_PROCESS],
    ["wrote no number", ""],
  ])("is taken over from one that %s", (_what, holder) => {
    write(LOCK, holder);
    expect(install().status).toBe(0);
    expect(readdirSync(folder.file(NATIVE)).filter((name) => name.startsWith("build-lock"))).toEqual([]);
  });

  it("lets one of several build", async () => {
    write(LOCK, NO_PROCESS);
    expect(await Promise.all([startInstall(), startInstall(), startInstall(), startInstall()])).toEqual([0, 0, 0, 0]);
    expect(calls()).toEqual(["configure", "build"]);
    expect(lock()).toBeUndefined();
  });

  it("is waited for as long as its process runs", async () => {
    const holder = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    write(LOCK, String(holder.pid));
    const installed = startInstall();
    await new Promise((resolve) => {
      setTimeout(resolve, 1500);
    });
    expect({ lock: lock(), calls: calls() }).toEqual({ lock: String(holder.pid), calls: [] });
    holder.kill("SIGKILL");
    expect(await installed).toBe(0);
    expect({ lock: lock(), calls: calls() }).toEqual({ lock: undefined, calls: ["configure", "build"] });
  });

  it("stays when it has become another's", () => {
    expect(install([], { FAKE_GYP_LOCK: NO_PROCESS }).status).toBe(0);
    expect(lock()).toBe(NO_PROCESS);
  });
});

describe.skipIf(process.platform === "win32")("scripts/test-native.mjs (skipped on Windows)", () => {
  /** Replaces compiler and archiver: writes a program that succeeds to the given path. */
  const FAKE_TOOL = `#!${process.execPath}
const args = process.argv.slice(2);
const path = args[0] === "rcs" ? args[1] : args[args.indexOf("-o") + 1];
if (args[0] !== "--version") import("node:fs").then(({ writeFileSync }) => writeFileSync(path, "#!/bin/sh\\n", { mode: 0o755 }));
`;

  it("removes unused files from its cache, except those being written", () => {
    for (const name of ["g++", "ar"]) {
      write(join("bin", name), FAKE_TOOL);
      chmodSync(folder.file(join("bin", name)), 0o755);
    }
    for (const isa of ["avx512", "avx2", "neon", "portable"]) {
      for (const part of ["matmul", "rows"]) write(join(NATIVE, "kernels", `isa-${isa}-${part}.cpp`), "// kernels\n");
    }
    write(join(NATIVE, "test", "small-test.cpp"), "int main() {}\n");
    const cache = join(".cache", "native-test", "host");
    const [old, dead, live] = ["old.o", `new.o-${NO_PROCESS}`, `new.o-${process.pid}`];
    for (const name of [old, dead, live]) write(join(cache, name), "");
    const env = { PATH: `${folder.file("bin")}${delimiter}${process.env["PATH"] ?? ""}`, CXX: "g++" };
    expect(run("test-native.mjs", [], env)).toMatchObject({
      status: 0,
      stdout: "",
      stderr: expect.stringContaining("running small-test"),
    });
    const names = readdirSync(folder.file(cache));
    expect(names).toContain(live);
    expect(names).not.toContain(old);
    expect(names).not.toContain(dead);
    expect(names.filter((name) => name.endsWith("-small-test"))).toHaveLength(1);
  });
});

describe("scripts/demo.mjs", () => {
  beforeEach(() => {
    write("package-lock.json", `{ "packages": {} }`);
    write(join("node_modules", ".package-lock.json"), `{ "packages": {} }`);
    for (const name of ["typescript", "esbuild"])
      symlinkSync(join(ROOT, "node_modules", name), folder.file(join("node_modules", name)));
    const compilerOptions = { module: "NodeNext", target: "ES2022", types: [], rootDir: "src", outDir: "dist" };
    write("tsconfig.build.json", JSON.stringify({ compilerOptions, include: ["src"] }));
    write(join("src", "cli", "main.ts"), "export {};\n");
    write(join("src", "tokenizer", "vocabulary-thread.ts"), "export {};\n");
  });

  it("builds the addon as a step of its own, once", () => {
    expect(run("demo.mjs")).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^rocmforge: building the native addon .* \d\.\d s\nrocmforge: building dist\//),
    });
    expect(run("demo.mjs").stderr).not.toContain("building");
  });

  it("continues without the addon, and does not build broken sources a second time", () => {
    const env = { FAKE_GYP_FAILURE: "unit.cpp:1: error: broken" };
    expect(run("demo.mjs", [], env)).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/warning: there is no native addon, .*unit\.cpp:1: error: broken/),
    });
    expect(run("demo.mjs", [], env).stderr).toMatch(/^rocmforge: warning: there is no native addon/);
    expect(calls()).toEqual(["configure"]);
    write(join(NATIVE, "engine", "unit.cpp"), "// mended\n");
    expect(run("demo.mjs").stderr).not.toContain("warning");
  });

  it("tries again if tools were missing", () => {
    run("demo.mjs", [], { FAKE_GYP_FAILURE: "not found: make" });
    expect(run("demo.mjs").stderr).toMatch(/^rocmforge: building the native addon/);
  });
});

describe("explainBuild", async () => {
  interface Explained {
    readonly kind: string;
    readonly reason: string;
    readonly remedy: string;
  }
  const { explainBuild } = (await import(pathToFileURL(join(ROOT, "scripts", "addon-failure.mjs")).href)) as {
    explainBuild(output: string): Explained;
  };

  it.each([
    ["gyp ERR! find Python Python is not set from command line", /Python 3 is missing/],
    ["gyp ERR! stack Error: not found: make", /make is missing/],
    ["make: g++: No such file or directory", /C\+\+17 compiler is missing/],
    ["/bin/sh: 1: g++: not found", /C\+\+17 compiler is missing/],
    ["g++: error: unrecognized command-line option '-mavx512vbmi'", /too old/],
    ["gyp ERR! stack is related to network connectivity.", /headers of this Node/],
    ["fatal error: napi.h: No such file or directory", /node-addon-api is not installed/],
    ["g++: fatal error: Killed signal terminated program cc1plus", /out of memory/],
    ["EACCES: permission denied, open 'build-lock'", /may not be written/],
    ["error: No space left on device", /disk is full/],
    ["unit.cpp:9:1: fatal error: error writing to /tmp/ccAbc.s: No space left on device", /disk is full/],
    ["../binding/addon.cpp:3:10: fatal error: napi.h: No such file or directory", /node-addon-api is not installed/],
    ["../binding/addon.cpp:3:10: fatal error: 'napi.h' file not found", /node-addon-api is not installed/],
    ["EBUSY: native/cpu/build-lock is held by process 7", /another build has not ended/],
    ["make: *** [unit.target.mk:120: Release/unit.o] Killed", /out of memory/],
  ])("a machine's fault: %s", (output, reason) => {
    expect(explainBuild(output)).toMatchObject({
      kind: "tools",
      reason: expect.stringMatching(reason),
      remedy: expect.stringContaining("rocmforge doctor --build"),
    });
  });

  it.each([
    "unit.cpp:4:8: error: static assertion failed: out of memory",
    "unit.cpp:4:8: error: 'Killed' was not declared in this scope",
    "unit.h:12:3: error: EACCES was not declared in this scope\ng++: fatal error: Killed signal terminated program cc1plus",
    "error: EACCES was not declared",
    "error: 'Killed' is no type",
    "error: static assertion failed: out of memory",
    "unit.cpp:1:1: error: broken\ncc1plus: note: unrecognized command-line option '-Wno-new' may have been intended to silence earlier diagnostics",
    "cc1plus: note: unrecognized command-line option '-Wno-new' may have been intended to silence earlier diagnostics\nld: error: undefined symbol: kernels",
    'unit.cpp:7:9: warning: unused\n    7 |   throw "write: No space left on device";\nld: error: undefined symbol: kernels',
  ])("the sources' fault: %s", (output) => {
    expect(explainBuild(output)).toMatchObject({ kind: "sources" });
  });

  it("calls anything else a fault of the sources, by the first error", () => {
    expect(explainBuild("note: x\na.cpp:1: error: one\na.cpp:2: error: two\nmake: *** Error 1")).toMatchObject({
      kind: "sources",
      reason: expect.stringMatching(/: a\.cpp:1: error: one$/),
    });
    expect(explainBuild("gyp ERR! stack Error: something new\ngyp ERR! not ok")).toMatchObject({
      reason: expect.stringMatching(/: Error: something new$/),
    });
    expect(explainBuild("")).toMatchObject({ kind: "sources" });
  });
});

describe("what must agree", () => {
  const gyp = readFileSync(join(ROOT, NATIVE, "binding.gyp"), "utf8");

  it("binding.gyp builds each instruction set with the flags of the tests", async () => {
    const { ISA_FLAGS } = (await import(pathToFileURL(join(ROOT, "scripts", "native-tests.mjs")).href)) as {
      ISA_FLAGS: Record<string, readonly string[]>;
    };
    for (const [isa, flags] of Object.entries(ISA_FLAGS)) {
      const target = gyp.split('"target_name": ').find((text) => text.startsWith(`"kernels_${isa}"`));
      expect(target).toContain(`"kernels/isa-${isa}-matmul.cpp", "kernels/isa-${isa}-rows.cpp"`);
      if (flags.length > 0) expect(target).toContain(`"isa_flags": [${flags.map((flag) => `"${flag}"`).join(", ")}]`);
    }
  });

  it("prebuilt addons are compiled with the flags of binding.gyp, for the platforms of package.json", async () => {
    const load = async (name: string): Promise<Record<string, unknown>> =>
      (await import(pathToFileURL(join(ROOT, "scripts", name)).href)) as Record<string, unknown>;
    const { ADDON_FLAGS } = (await load("platform-addon.mjs")) as { ADDON_FLAGS: readonly string[] };
    expect(gyp).toContain(`"flags": [${ADDON_FLAGS.map((flag) => `"${flag}"`).join(", ")}]`);
    const { PLATFORMS } = (await load("addon-platforms.mjs")) as { PLATFORMS: Record<string, unknown> };
    expect(
      Object.keys(PLATFORMS)
        .map((platform) => `@rocmforge/cpu-${platform}`)
        .toSorted(),
    ).toEqual(Object.keys(packageJson.optionalDependencies).toSorted());
  });

  it("binding.gyp keeps to exact arithmetic", () => {
    expect(gyp).toContain('"-ffp-contract=off"');
    expect(gyp).not.toMatch(/fast-math|-Ofast|unsafe-math/);
  });

  it("the package carries what its install script reads", () => {
    const carried = (name: string): boolean =>
      packageJson.files.some((entry) => name === entry || name.startsWith(`${entry}/`));
    const scripts = new Set<string>();
    const follow = (name: string): void => {
      if (scripts.has(name)) return;
      scripts.add(name);
      for (const [, imported] of readFileSync(join(ROOT, "scripts", name), "utf8").matchAll(/from "\.\/([\w.-]+)"/g))
        follow(imported);
    };
    follow("install-addon.mjs");
    expect([...scripts].filter((name) => !carried(`scripts/${name}`))).toEqual([]);
    for (const part of [
      "binding.gyp",
      "index.d.ts",
      "binding/addon.cpp",
      "engine/isa.cpp",
      "instructions/add.cpp",
      "kernels/kernel-table.h",
    ])
      expect(carried(`native/cpu/${part}`)).toBe(true);
    expect(carried("native/cpu/build/Release/rocmforge_cpu.node")).toBe(false);
    expect(packageJson.dependencies).toHaveProperty("node-addon-api");
  });
});
