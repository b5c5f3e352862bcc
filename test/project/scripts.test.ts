// The scripts on a small project of their own, with a replacement for npm: what they install, build and print, and how
// they fail. A clean clone with the real npm is tried by hand (see CONTRIBUTING.md).

import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Replaces npm: records its arguments, and installs or fails as the environment says. */
const FAKE_NPM = `
import { appendFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
appendFileSync("npm-calls.txt", process.argv.slice(2).join(" ") + " dry=" + process.env.npm_config_dry_run + "\\n");
if (process.env.FAKE_NPM_FAILURE) { console.error("npm error " + process.env.FAKE_NPM_FAILURE); process.exit(1); }
mkdirSync("node_modules/demo", { recursive: true });
for (const name of ["typescript", "esbuild"]) {
  try { symlinkSync(process.env.REAL_MODULES + "/" + name, "node_modules/" + name); } catch {}
}
const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
delete lock.packages["node_modules/other-platform"];
writeFileSync("node_modules/.package-lock.json", JSON.stringify(lock));
`;

const LOCK = {
  lockfileVersion: 3,
  packages: {
    "": {},
    "node_modules/demo": { version: "1.0.0" },
    "node_modules/other-platform": { version: "1.0.0", optional: true },
  },
};

let folder = "";

function write(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

function run(script: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const result = spawnSync(process.execPath, [join("scripts", script), ...args], {
    cwd: folder,
    encoding: "utf8",
    env: {
      ...process.env,
      npm_execpath: join(folder, "npm-fake.mjs"),
      REAL_MODULES: join(ROOT, "node_modules"),
      ...env,
    },
  });
  return { status: result.status, stdout: result.stdout, stderr: result.stderr };
}

const npmCalls = (): string[] =>
  existsSync(join(folder, "npm-calls.txt"))
    ? readFileSync(join(folder, "npm-calls.txt"), "utf8").trim().split("\n")
    : [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rocmforge-scripts-"));
  cpSync(join(ROOT, "scripts"), join(folder, "scripts"), { recursive: true });
  write("package.json", `{ "type": "module" }`);
  write("package-lock.json", JSON.stringify(LOCK));
  write("npm-fake.mjs", FAKE_NPM);
  const compilerOptions = {
    module: "NodeNext",
    target: "ES2022",
    strict: true,
    types: [],
    rootDir: "src",
    outDir: "dist",
  };
  write("tsconfig.build.json", JSON.stringify({ compilerOptions, include: ["src"] }));
  write("src/cli/main.ts", `export const greeting: string = "hello";\n`);
  write("src/tokenizer/vocabulary-thread.ts", "export {};\n");
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe("scripts/build.mjs", () => {
  it("installs, builds an executable command and removes stale output", () => {
    write("dist/stale.js", "");
    const { status, stdout, stderr } = run("build.mjs");
    expect(stderr).toMatch(
      /^rocmforge: installing packages \(npm ci\) … \d+\.\d s\nrocmforge: building dist\/ .* … \d+\.\d s\nrocmforge: bundling .* … \d+\.\d s\n$/,
    );
    expect({ status, stdout }).toEqual({ status: 0, stdout: "" });
    expect(readdirSync(join(folder, "dist")).toSorted()).toEqual(["cli", "tokenizer"]);
    expect(statSync(join(folder, "dist", "cli", "main.js")).mode & 0o111).not.toBe(0);
    expect(readdirSync(join(folder, ".cache"))).toEqual(["build-stamp"]);
  });

  it("installs again when the lockfile names another version, and only then", () => {
    run("build.mjs");
    run("build.mjs");
    expect(npmCalls()).toHaveLength(1);
    write("package-lock.json", JSON.stringify(LOCK).replace(`"version":"1.0.0"`, `"version":"2.0.0"`));
    run("build.mjs");
    expect(npmCalls()).toHaveLength(2);
  });

  it("installs the locked versions without `npm ci` when the lockfile lacks another platform's package", () => {
    const optionalDependencies = { "demo-darwin": "1.0.0" };
    const demo = { version: "1.0.0", optionalDependencies };
    write("package-lock.json", JSON.stringify({ ...LOCK, packages: { ...LOCK.packages, "node_modules/demo": demo } }));
    expect(run("build.mjs").status).toBe(0);
    const listed = { "node_modules/demo-darwin": { version: "1.0.0", optional: true } };
    write(
      "package-lock.json",
      JSON.stringify({
        ...LOCK,
        packages: { ...LOCK.packages, "node_modules/demo": { ...demo, version: "2.0.0" }, ...listed },
      }),
    );
    run("build.mjs");
    expect(npmCalls().map((call) => call.split(" --include")[0])).toEqual(["install --no-save", "ci"]);
  });

  it("does not hand an outer --dry-run on to the install", () => {
    expect(run("build.mjs", [], { npm_config_dry_run: "true" }).status).toBe(0);
    expect(npmCalls()[0]).toMatch(/^ci .*dry=undefined$/);
  });

  it("keeps the old dist/ and says so when the sources do not compile", () => {
    run("build.mjs");
    write("src/cli/main.ts", `export const greeting: string = 1;\n`);
    const { status, stderr } = run("build.mjs");
    expect(status).not.toBe(0);
    expect(stderr).toContain("error TS2322");
    expect(stderr).toMatch(/the sources do not compile; .* dist\/ is as it was\n$/);
    expect(readFileSync(join(folder, "dist", "cli", "main.js"), "utf8")).toContain("hello");
    expect(readdirSync(join(folder, ".cache"))).toEqual(["build-stamp"]);
  });

  it.each([
    ["code ENOTFOUND", /the package registry cannot be reached/],
    ["code ENOSPC no space left on device", /the disk is full/],
    ["code EACCES permission denied", /may not be written/],
    [
      "code EUSAGE `npm ci` can only install packages when your package.json and package-lock.json are in sync",
      /run `npm install`/,
    ],
    ["gyp ERR! find Python", /a C\+\+ compiler is missing/],
    ["something new", /`npm ci` did not succeed; its last words are above/],
  ])("rejects a failed install with a sentence: %s", (failure, sentence) => {
    const { status, stderr } = run("build.mjs", [], { FAKE_NPM_FAILURE: failure });
    expect(status).not.toBe(0);
    expect(stderr).toContain(failure);
    expect(stderr.trimEnd().split("\n").at(-1)).toMatch(sentence);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

describe("scripts/demo.mjs", () => {
  it("builds only when a source has changed, and lets options take the place of its own", () => {
    write(
      "src/cli/main.ts",
      `declare const process: { argv: string[] }; declare const console: { log(text: string): void };\nconsole.log(JSON.stringify(process.argv.slice(2)));\n`,
    );
    const first = run("demo.mjs");
    expect(first.stderr).toContain("building dist/");
    expect(JSON.parse(first.stdout)).toEqual([
      "generate",
      "-m",
      join(folder, "models", "fable-10m-Q4_K_M.gguf"),
      "-p",
      expect.any(String),
      "-n",
      "200",
      "--seed",
      "7",
    ]);
    const second = run("demo.mjs", ["--seed", "3", "--prompt=Hello"]);
    expect(second.stderr).not.toContain("building dist/");
    expect(JSON.parse(second.stdout)).toEqual([
      "generate",
      "-m",
      expect.any(String),
      "-n",
      "200",
      "--seed",
      "3",
      "--prompt=Hello",
    ]);
  });
});

describe("scripts/bench.mjs", () => {
  it("lists the benchmarks and rejects an unknown name", () => {
    write(
      "bench/open.ts",
      "export async function run(args: readonly string[]): Promise<number> {\n  return args.length;\n}\n",
    );
    write("bench/shape.ts", "export const shape = 1;\n");
    write(
      "tsconfig.bench.json",
      JSON.stringify({
        extends: "./tsconfig.build.json",
        compilerOptions: { rootDir: ".", outDir: "build" },
        include: ["src", "bench"],
      }),
    );
    expect(run("bench.mjs").stdout).toMatch(/^benchmarks: open\n/);
    expect(run("bench.mjs", ["close"])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`no benchmark "close"; benchmarks: open`),
    });
    expect(run("bench.mjs", ["open", "a", "b", "c"]).status).toBe(3);
  });
});

describe("the pieces", () => {
  it("rejects a Node older than the package needs", async () => {
    const { checkNode } = (await import(pathToFileURL(join(ROOT, "scripts", "bootstrap.mjs")).href)) as {
      checkNode(version: string): void;
    };
    expect(() => checkNode("18.20.4")).toThrow(/Node 20\.19 or newer is needed and this is 18\.20\.4/);
    expect(() => checkNode("20.18.1")).toThrow(/20\.19/);
    expect(() => checkNode("20.19.0")).not.toThrow();
    expect(() => checkNode("24.0.0")).not.toThrow();
  });

  it("ends a program without progress, and lets a slow one take its time", { timeout: 60_000 }, async () => {
    const { runProgram } = (await import(pathToFileURL(join(ROOT, "scripts", "tool.mjs")).href)) as {
      runProgram(
        command: string,
        args: readonly string[],
        options: object,
      ): Promise<{ readonly exitCode: number; readonly timedOut: boolean }>;
    };
    const program = (ms: number): readonly string[] => ["-e", `setTimeout(() => {}, ${ms})`];
    const slow = await runProgram(process.execPath, program(1500), {
      stall: { afterMs: 300, progress: () => performance.now() },
    });
    expect(slow).toMatchObject({ exitCode: 0, timedOut: false });
    const stuck = await runProgram(process.execPath, program(3_600_000), {
      stall: { afterMs: 300, progress: () => 1 },
    });
    expect(stuck).toMatchObject({ exitCode: 137, timedOut: true });
  });

  it("keeps note of what runs and what was skipped, while vitest runs", { timeout: 60_000 }, () => {
    write("vitest.config.mjs", "export default { test: { include: ['*.test.mjs'] } };\n");
    write(
      "some.test.mjs",
      `import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
it.concurrent("sees itself", { timeout: 30_000 }, async ({ expect }) => {
  await expect.poll(() => readFileSync("progress.json", "utf8"), { timeout: 20_000 }).toContain("some.test.mjs > sees itself");
});
// vitest may keep what a worker reports until it has something more to report.
it.concurrent.each([300, 700, 1500])("ends after %i ms", async (ms) => await new Promise((resolve) => setTimeout(resolve, ms)));
describe.skipIf(true)("cards (needs a card)", () => { it("one (1)", () => {}); });
describe.skipIf(true)("a group (skipped: nobody (at all) is here)", () => { it("two", () => {}); it("three", () => {}); });
it("four", (context) => context.skip("said at run time"));
it.skip("five", () => {});
`,
    );
    const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
    const reporter = join(ROOT, "scripts", "progress-reporter.mjs");
    const env = { ...process.env, ROCMFORGE_TEST_PROGRESS: join(folder, "progress.json") };
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const { status, stdout, stderr } = spawnSync(process.execPath, [vitest, "run", `--reporter=${reporter}`], {
      cwd: folder,
      env,
      encoding: "utf8",
    });
    expect({ status, said: status === 0 ? "" : stdout + stderr }).toEqual({ status: 0, said: "" });
    const { running, skipped } = JSON.parse(readFileSync(join(folder, "progress.json"), "utf8")) as {
      readonly running: readonly string[];
      readonly skipped: readonly object[];
    };
    expect(running).toEqual([]);
    const reasons = spawnSync(
      process.execPath,
      [
        "--input-type=module",
        "-e",
        `import { skipReasons } from "./scripts/skip-reasons.mjs"; console.log(skipReasons(JSON.parse(process.argv[1])).join("\\n"));`,
        JSON.stringify(skipped),
      ],
      { cwd: folder, encoding: "utf8" },
    );
    expect(reasons.stdout.trim().split("\n")).toEqual([
      "2 skipped: nobody (at all) is here (some.test.mjs)",
      "1 skipped: needs a card (some.test.mjs)",
      "1 skipped: no reason given (some.test.mjs)",
      "1 skipped: said at run time (some.test.mjs)",
    ]);
  });

  it("counts a test file that could not be loaded as a failure", async () => {
    const { countResults } = (await import(pathToFileURL(join(ROOT, "scripts", "test-count.mjs")).href)) as {
      countResults(report: unknown): unknown;
    };
    const testResults = [
      { status: "failed", assertionResults: [] },
      { status: "failed", assertionResults: [{ status: "failed" }] },
      { status: "passed", assertionResults: [{ status: "passed" }] },
    ];
    const report = { numPassedTests: 1, numFailedTests: 1, numPendingTests: 2, numTodoTests: 1, testResults };
    expect(countResults(report)).toEqual({ passed: 1, failed: 2, skipped: 3 });
  });
});
