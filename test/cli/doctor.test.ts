// `rocmforge doctor`: what it reports here, and in packages whose addon is missing or broken, made for this test.

import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { marked } from "marked";
import { describe, expect, it } from "vitest";
import { BINDINGS_VERSION, loadAddon } from "../../src/backends/cpu/addon.js";
import { FileLock } from "../../src/file-lock.js";
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
  readonly problems: readonly { readonly severity: string; readonly what: string; readonly repair?: string }[];
  readonly repairs?: readonly { readonly what: string; readonly failure?: string }[];
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
    // Declarations are half of the files, and nothing that runs.
    cpSync(join(ROOT, "dist"), this.file("dist"), { recursive: true, filter: (path) => !path.endsWith(".d.ts") });
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
      mapping: { available: process.platform === "linux" || process.platform === "win32" },
    });
    expect(report.memory.availableBytes).toBeLessThanOrEqual(report.memory.totalBytes);
    expect(report.backends.map(({ name }) => name)).toEqual(["hip", "cuda", "cpu", "reference"]);
    expect(finished.status).toBe(report.auto === "reference" ? 1 : 0);
  });

  it("is shown as Markdown, each missing backend with a reason and what to do", async () => {
    const { stdout } = await doctor([]);
    expect(stdout).toMatch(/^\| node +\| v\d+\./m);
    expect(stdout).toMatch(/^### hip: not available\n\n.+\n\n- because: \S.*\n- what to do: \S/m);
    expect(stdout).toMatch(/^### reference: ready$/m);
    expect(stdout).toMatch(/^`--backend auto` chooses \w+/m);
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
        bindingsVersion: BINDINGS_VERSION,
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
        /^`--backend auto` chooses cpu and fails until that is fixed; other backends can be chosen by name\.$/m,
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
      /^### cpu: not available\n\n.*\n\n- because: the native addon has not been built.*\n- what to do: run `rocmforge doctor --build`$/m,
    );
    expect(finished.stdout).toMatch(/auto` chooses reference: exact but slow/);
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
    expect(stdout).toMatch(/^- what to do: install make$/m);
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

describe("the report for an issue", () => {
  it("is Markdown whose tables have all their rows", async () => {
    const { stdout } = await doctor([], { env: { ...NO_GPU, ROCMFORGE_KERNEL_CACHE: "/no|where" } });
    const tokens = marked.lexer(stdout);
    const titles = tokens.flatMap((token) => (token.type === "heading" ? [(token as { text: string }).text] : []));
    expect(titles).toEqual(expect.arrayContaining(["Known problems", "Machine", "Backends", "Caches"]));
    const tables = tokens.filter((token) => token.type === "table") as {
      readonly rows: readonly { text: string }[][];
    }[];
    const [machine] = tables;
    expect(machine.rows.map(([{ text }]) => text)).toEqual(
      expect.arrayContaining(["rocmforge", "node", "system", "processor", "instructions", "memory", "graphics cards"]),
    );
    expect(tables.flatMap(({ rows }) => rows).find(([{ text }]) => text === "kernels")?.[1].text).toBe("/no|where");
  });

  it("has no secrets, home folders or user names", async () => {
    using folder = new TemporaryFolder();
    const home = folder.file("homes/alice");
    mkdirSync(home, { recursive: true });
    const env = {
      HOME: home,
      USER: "alice",
      LOGNAME: "alice",
      HF_TOKEN: "hf_abcdefgh",
      ROCMFORGE_API_KEYS: "key-of-a-client",
      HTTPS_PROXY: "http://alice:hunter2@127.0.0.1:9",
      HF_HOME: "",
      HF_HUB_CACHE: "",
      XDG_CACHE_HOME: "",
      ROCMFORGE_MODEL_CACHE: join(home, "models"),
    };
    const endpoints = ["http://127.0.0.1:9/mirror-of-alice", "http://bob:hunter2@127.0.0.1:9"];
    for (const [index, args] of [[], ["--json"]].entries()) {
      const { stdout } = await doctor(args, { env: { ...env, HF_ENDPOINT: endpoints[index] } });
      expect(stdout).toContain("HF_TOKEN");
      expect(stdout).toContain("~/models");
      for (const secret of ["hf_abcdefgh", "key-of-a-client", "mirror-of", "hunter2", home])
        expect(stdout).not.toContain(secret);
    }
  });

  it("names settings that make it slow or break it", async () => {
    const env = { ...NO_GPU, ROCMFORGE_GPU_GRAPHS: "off", HSA_OVERRIDE_GFX_VERSION: "10.3.0", HF_ENDPOINT: "nonsense" };
    const { stdout } = await doctor([], { env });
    expect(stdout).toMatch(/^- note: ROCMFORGE_GPU_GRAPHS=off makes GPUs slower\n {2}- what to do: unset it/m);
    expect(stdout).toMatch(/^- note: HSA_OVERRIDE_GFX_VERSION=10\.3\.0 /m);
    expect(stdout).toMatch(/^- \*\*warning\*\*: \[hub\] HF_ENDPOINT: expected an address/m);
  });
});

describe("--fix", () => {
  /** A machine with caches of its own. */
  class Machine extends TemporaryFolder {
    readonly kernels = this.file("kernels");
    readonly blobs = this.file("hf/hub/models--tester--fable/blobs");
    readonly env = {
      ...NO_GPU,
      ROCMFORGE_KERNEL_CACHE: this.kernels,
      HF_HOME: this.file("hf"),
      HF_HUB_CACHE: "",
      HUGGINGFACE_HUB_CACHE: "",
      ROCMFORGE_MODEL_CACHE: this.file("models"),
    };

    write(name: string, text: string, ageDays = 0): string {
      const path = this.file(name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      const time = new Date(Date.now() - ageDays * 86_400_000);
      utimesSync(path, time, time);
      return path;
    }
  }

  it("removes what is of no use from the caches, says so, and leaves the rest", async () => {
    using machine = new Machine();
    const gone = [
      machine.write(`kernels/${"ab".repeat(32)}.kernel`, "damaged"),
      machine.write(`kernels/${"cd".repeat(32)}.kernel.0a0b.tmp`, "half", 1),
      machine.write("hf/hub/models--tester--fable/blobs/1234.incomplete", "x".repeat(5000), 8),
      machine.write("hf/hub/models--tester--fable/blobs/1234.incomplete.lock-00000000-1-1-0123456789ab", "", 8),
      machine.write("models/example.com-0123456789abcdef/0123456789abcdef/a.gguf.incomplete", "old", 30),
    ];
    const kept = [
      machine.write("kernels/compilers.json", "{}", 300),
      machine.write("hf/hub/models--tester--fable/blobs/5678.incomplete", "new", 6),
      machine.write("hf/hub/models--tester--fable/blobs/9abc", "a complete model", 900),
      machine.write("models/example.com-0123456789abcdef/0123456789abcdef/b.gguf", "another", 900),
    ];
    const before = await doctor(["--json"], { env: machine.env });
    expect(reportOf(before).problems.map(({ repair }) => repair)).toEqual(
      expect.arrayContaining(["kernel cache", "downloads"]),
    );
    expect(gone.filter((path) => !existsSync(path))).toEqual([]);
    const finished = await doctor(["--fix"], { env: machine.env });
    expect(finished.stderr).toMatch(/removing 2 files \(11 bytes\) from the kernel cache/);
    expect(finished.stderr).toMatch(/removing the partial download .*1234\.incomplete, 5\.00 kB/);
    expect(finished.stdout).toMatch(/^- removed 2 files \(11 bytes\) from the kernel cache$/m);
    expect(finished.stdout).toMatch(/^- removed 3 files \(5\.00 kB\) from the model caches$/m);
    expect(finished.stdout).toMatch(/^## Known problems\n\n(?:None\.|- \*\*error)/m);
    expect(gone.filter((path) => existsSync(path))).toEqual([]);
    expect(kept.filter((path) => !existsSync(path))).toEqual([]);
    expect((await doctor(["--fix"], { env: machine.env })).stdout).toContain("There was nothing to repair.");
  });

  it("does not remove a partial download that a process holds", async () => {
    using machine = new Machine();
    const partial = machine.write("hf/hub/models--tester--fable/blobs/1234.incomplete", "old", 8);
    await using lock = await FileLock.tryAcquire(partial);
    expect(lock).toBeDefined();
    const finished = await doctor(["--fix", "--json"], { env: machine.env });
    expect(finished.status).toBe(1);
    expect(reportOf(finished).repairs).toEqual([{ what: "removed 0 files (0 bytes) from the model caches" }]);
    expect(existsSync(partial)).toBe(true);
  });

  const addon = loadAddon();
  const NPM_THAT_BUILDS = `
    import { cpSync, mkdirSync } from "node:fs";
    mkdirSync("native/cpu/build/Release", { recursive: true });
    if (process.env.BUILT !== "") cpSync(process.env.BUILT, "native/cpu/build/Release/rocmforge_cpu.node");
    process.exit(0);
  `;

  it.skipIf("reason" in addon)(
    `builds an addon that is missing or broken, and only then${"reason" in addon ? ` (skipped: ${addon.reason})` : ""}`,
    async () => {
      using bare = new BarePackage();
      using machine = new Machine();
      bare.write("npm-fake.mjs", NPM_THAT_BUILDS);
      bare.write("native/cpu/build/Release/rocmforge_cpu.node", "not a library");
      const built = "path" in addon ? addon.path : "";
      const env = { ...machine.env, npm_execpath: bare.file("npm-fake.mjs"), BUILT: built };
      const useless = await doctor(["--fix", "--json"], { program: bare.program, env: { ...env, BUILT: "" } });
      expect(useless.status).toBe(1);
      expect(reportOf(useless).problems).toContainEqual(expect.objectContaining({ repair: "addon" }));
      const fixed = await doctor(["--fix", "--json"], { program: bare.program, env });
      expect(reportOf(fixed)).toMatchObject({ auto: "cpu", repairs: [{ what: "built the native addon" }] });
      expect(reportOf(fixed).problems.filter(({ repair }) => repair !== undefined)).toEqual([]);
      expect(fixed.status).toBe(0);
      expect(reportOf(await doctor(["--fix", "--json"], { program: bare.program, env })).repairs).toEqual([]);
    },
  );
});
