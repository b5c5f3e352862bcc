// `rocmforge doctor`: what it reports here, and in packages whose addon is missing or broken, made for this test.

import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE, type Finished, SMALL_MODEL } from "./command-line.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const HANG_MS = 60_000;
/** Reports that depend on this machine. */
const NO_GPU = { ROCMFORGE_HIP_LIBRARY: "/nowhere/libamdhip64.so", ROCMFORGE_CUDA_LIBRARY: "/nowhere/libcuda.so.1" };

interface Report {
  readonly node: string;
  readonly platform: string;
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  readonly mapping: { readonly available: boolean };
  readonly auto?: string;
  readonly autoStopsAt?: string;
  readonly problem?: string;
  readonly build?: { readonly built: boolean };
  readonly backends: readonly {
    readonly name: string;
    readonly unavailable?: { readonly reason: string; readonly remedy: string };
    readonly diagnostics?: Readonly<Record<string, unknown>>;
  }[];
}

interface Surroundings {
  readonly program?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function run(args: readonly string[], { program = COMMAND_LINE, env = {} }: Surroundings = {}): Promise<Finished> {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, ROCMFORGE_CPU_ISA: "", ...env },
    timeout: HANG_MS,
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((resolve) => {
    child.on("close", (status) => resolve({ status, stdout, stderr }));
  });
}

const doctor = (args: readonly string[], surroundings?: Surroundings): Promise<Finished> =>
  run(["doctor", ...args], surroundings);
const reportOf = ({ stdout }: Finished): Report => JSON.parse(stdout) as Report;
const cpuOf = (report: Report) => report.backends.find(({ name }) => name === "cpu");

/** This package after an install without the addon. */
class BarePackage extends TemporaryFolder {
  readonly program = this.file("dist/cli/main.js");

  constructor() {
    super();
    cpSync(join(ROOT, "dist"), this.file("dist"), { recursive: true });
    cpSync(join(ROOT, "package.json"), this.file("package.json"));
    symlinkSync(join(ROOT, "node_modules"), this.file("node_modules"));
  }

  write(name: string, text: string): void {
    mkdirSync(dirname(this.file(name)), { recursive: true });
    writeFileSync(this.file(name), text);
  }
}

describe("this machine", () => {
  it("is shown as data, with status 0 when something native runs", async () => {
    const finished = await doctor(["--json"]);
    const report = reportOf(finished);
    expect(report).toMatchObject({
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
      mapping: { available: process.platform === "linux" },
    });
    expect(report.memory.availableBytes).toBeLessThanOrEqual(report.memory.totalBytes);
    expect(report.backends.map(({ name }) => name)).toEqual(["hip", "cuda", "cpu", "reference"]);
    expect(finished.status).toBe(report.auto === "reference" ? 1 : 0);
  });

  it("is shown as text, each missing backend with a reason and what to do", async () => {
    const { stdout } = await doctor([]);
    expect(stdout).toMatch(/^ {2}node +v\d+\./m);
    expect(stdout).toMatch(/^hip: not available \(.+\)\n {2}because +\S.*\n {2}what to do +\S/m);
    expect(stdout).toMatch(/^reference: ready \(/m);
    expect(stdout).toMatch(/^--backend auto chooses \w+/m);
  });

  const loaded = loadAddon();
  const why = "reason" in loaded ? ` (skipped: ${loaded.reason})` : "";
  describe.skipIf("reason" in loaded)(`with the addon${why}`, () => {
    it("says where it is, what it has and what would be used", async () => {
      const finished = await doctor(["--json"]);
      expect(finished.status).toBe(0);
      const { diagnostics = {} } = cpuOf(reportOf(finished)) ?? {};
      expect(diagnostics).toMatchObject({
        addon: expect.stringMatching(/rocmforge_cpu\.node$/),
        bindingsVersion: 6,
        isaForced: false,
      });
      expect(diagnostics["isa"]).toBe((diagnostics["instructionSets"] as readonly string[])[0]);
      expect(diagnostics["threads"]).toBeGreaterThan(0);
    });

    it("says which instruction set is forced, and refuses one that is not there", async () => {
      const forced = await doctor(["--json"], { env: { ROCMFORGE_CPU_ISA: "portable" } });
      expect(cpuOf(reportOf(forced))?.diagnostics).toMatchObject({ isa: "portable", isaForced: true });
      const refused = await doctor(["--json"], { env: { ROCMFORGE_CPU_ISA: "mmx" } });
      expect(refused.status).toBe(1);
      expect(cpuOf(reportOf(refused))?.unavailable?.reason).toMatch(
        /ROCMFORGE_CPU_ISA: expected one that this machine can run \(.*portable\).*found mmx/,
      );
    });

    it("says that auto fails if it does", async () => {
      const env = { ...NO_GPU, ROCMFORGE_CPU_ISA: "mmx" };
      const refused = await doctor(["--json"], { env });
      expect(reportOf(refused)).toMatchObject({ autoStopsAt: "cpu" });
      expect(reportOf(refused).auto).toBeUndefined();
      expect((await doctor([], { env })).stdout).toMatch(
        /^--backend auto chooses cpu and fails until that is fixed; other backends can be chosen by name$/m,
      );
      const generated = await run(["generate", "-m", SMALL_MODEL, "-p", "Once", "-n", "1"], { env });
      expect(generated).toMatchObject({ status: 2, stdout: "", stderr: expect.stringMatching(/.*ROCMFORGE_CPU_ISA/) });
    });
  });
});

describe("a package without the addon", () => {
  it("prints how to build it, with status 1", async () => {
    using bare = new BarePackage();
    const finished = await doctor([], { program: bare.program });
    expect(finished.status).toBe(1);
    expect(finished.stdout).toMatch(
      /^cpu: not available .*\n {2}because +the native addon has not been built.*\n {2}what to do +run `rocmforge doctor --build`$/m,
    );
    expect(finished.stdout).toMatch(/auto chooses reference: exact but slow/);
  });

  it("prints why the build failed", async () => {
    using bare = new BarePackage();
    bare.write(
      "native/cpu/build-failure.json",
      JSON.stringify({ reason: "make is missing\u001b[2J", remedy: "install make" }),
    );
    const { stdout } = await doctor([], { program: bare.program });
    expect(stdout).toContain("could not be built: make is missing");
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toMatch(/^ {2}what to do +install make$/m);
  });

  it("prints why an existing addon does not load", async () => {
    using bare = new BarePackage();
    bare.write("native/cpu/build/Release/rocmforge_cpu.node", "not a library");
    const report = reportOf(await doctor(["--json"], { program: bare.program }));
    expect(cpuOf(report)?.unavailable).toMatchObject({
      reason: expect.stringMatching(/does not load/),
      remedy: expect.stringContaining("--build"),
    });
  });
});

describe("generate in a package without the addon", () => {
  const ARGS = ["generate", "-m", SMALL_MODEL, "-p", "Once", "-n", "1"];

  it("falls back to reference, and warns", async () => {
    using bare = new BarePackage();
    const { status, stdout, stderr } = await run(ARGS, { program: bare.program });
    expect({ status, start: stdout.slice(0, 4) }).toEqual({ status: 0, start: "Once" });
    expect(stderr).toMatch(/RocmForgeWarning: the cpu backend cannot run here: .*doctor --build/);
  });

  it("rejects --backend cpu with the same reason", async () => {
    using bare = new BarePackage();
    const { status, stdout, stderr } = await run([...ARGS, "--backend", "cpu"], { program: bare.program });
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/.*cpu cannot run here: the native addon has not been built.*doctor --build/);
    expect(stderr).not.toContain("RocmForgeWarning");
  });
});

describe("--build", () => {
  const FAKE_NPM = `
    import { writeFileSync } from "node:fs";
    writeFileSync("npm-call.json", JSON.stringify({ args: process.argv.slice(2), global: process.env.npm_config_global }));
    console.log("what npm says");
    process.exit(Number(process.env.FAKE_NPM_STATUS));
  `;

  it("runs `npm run addon` in the package's own folder and keeps stdout for the report", async () => {
    using bare = new BarePackage();
    bare.write("npm-fake.mjs", FAKE_NPM);
    const env = { npm_execpath: bare.file("npm-fake.mjs"), npm_config_global: "true", FAKE_NPM_STATUS: "0" };
    const finished = await doctor(["--build", "--json"], { program: bare.program, env });
    expect(JSON.parse(readFileSync(bare.file("npm-call.json"), "utf8"))).toEqual({
      args: ["run", "addon", "--silent"],
    });
    expect(finished.stderr).toContain("what npm says");
    expect(reportOf(finished).build).toEqual({ built: true });
  });

  it("fails when the build fails", async () => {
    using bare = new BarePackage();
    bare.write("npm-fake.mjs", FAKE_NPM);
    const finished = await doctor(["--build", "--json"], {
      program: bare.program,
      env: { npm_execpath: bare.file("npm-fake.mjs"), FAKE_NPM_STATUS: "1" },
    });
    expect(finished.status).toBe(1);
    expect(reportOf(finished).build).toMatchObject({
      built: false,
      reason: expect.stringContaining("could not be built"),
    });
  });
});
