// The two tarballs of `npm run package`, installed by one `npm install` as on a user's machine: into an empty folder, with
// an empty npm cache, and with a PATH that has a shell, Node and npm but no compiler, make or Python.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, realpathSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "../support/temporary-folder.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const INSTALL_LIMIT_MS = 300_000;

/** Builds the package and the package of this platform; returns the paths of their tarballs. */
export function writeTarballs(folder: string): readonly string[] {
  const output = execFileSync(process.execPath, [join(ROOT, "scripts", "package.mjs"), "--out", folder], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return output.trim().split("\n");
}

/** The file of a program on this machine's PATH. */
function programFile(name: string): string {
  const { stdout } = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" });
  return realpathSync(stdout.trim());
}

interface ProgramResult {
  readonly status: number | null;
  readonly output: string;
}

/** A program that runs until it is disposed, with everything that it starts. */
export interface RunningProgram extends AsyncDisposable {
  /** Resolves with the match when its output has one. */
  until(pattern: RegExp): Promise<RegExpExecArray>;
}

export class InstalledTarballs implements Disposable {
  readonly #folder = new TemporaryFolder();
  /** Seconds that the last install took. */
  installSeconds = 0;

  constructor(node: string = process.execPath) {
    for (const name of ["programs", "project", "home"]) mkdirSync(this.#folder.file(name));
    symlinkSync(realpathSync(node), join(this.#folder.file("programs"), "node"));
    for (const name of ["sh", "npm", "npx"]) symlinkSync(programFile(name), join(this.#folder.file("programs"), name));
    writeFileSync(this.file("package.json"), JSON.stringify({ name: "project", type: "module", private: true }));
  }

  /** A file of the project's folder. */
  file(name: string): string {
    return join(this.#folder.file("project"), name);
  }

  get environment(): NodeJS.ProcessEnv {
    // Settings of the machine's npm that lead to its registry stay; its cache and the running npm's own variables do not.
    const kept = Object.entries(process.env).filter(([name]) =>
      /^(?:npm_config_registry|npm_config_userconfig|.*_proxy|node_extra_ca_certs)$/i.test(name),
    );
    return {
      ...Object.fromEntries(kept),
      HOME: this.#folder.file("home"),
      PATH: this.#folder.file("programs"),
      npm_config_cache: this.#folder.file("npm-cache"),
      npm_config_update_notifier: "false",
    };
  }

  run(program: string, ...args: readonly string[]): ProgramResult {
    const { status, stdout, stderr } = spawnSync(join(this.#folder.file("programs"), program), args, {
      cwd: this.file(""),
      env: this.environment,
      encoding: "utf8",
      timeout: INSTALL_LIMIT_MS,
    });
    return { status, output: `${stdout}${stderr}` };
  }

  /** Standard output of a program that is run in the project's folder; throws if it fails. */
  node(program: string): string {
    writeFileSync(this.file("program.js"), program);
    return execFileSync(join(this.#folder.file("programs"), "node"), ["program.js"], {
      cwd: this.file(""),
      env: this.environment,
      encoding: "utf8",
    });
  }

  install(tarballs: readonly string[], ...options: readonly string[]): ProgramResult {
    const start = performance.now();
    const result = this.run(
      "npm",
      "install",
      "--foreground-scripts",
      "--no-audit",
      "--no-fund",
      ...options,
      ...tarballs,
    );
    this.installSeconds = (performance.now() - start) / 1000;
    return result;
  }

  /** Starts a program of the project through npx. */
  start(args: readonly string[], environment: NodeJS.ProcessEnv = {}): RunningProgram {
    const child = spawn(join(this.#folder.file("programs"), "npx"), ["--no-install", ...args], {
      cwd: this.file(""),
      env: { ...this.environment, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
      // A process group, because npx has children.
      detached: true,
    });
    let output = "";
    const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
    const listeners = new Set<() => void>();
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        for (const listener of listeners) listener();
      });
    return {
      until: (pattern) =>
        new Promise((resolve, reject) => {
          const look = (): void => {
            const match = pattern.exec(output);
            if (match !== null) resolve(match);
          };
          listeners.add(look);
          void ended.then(() => reject(new Error(`${args.join(" ")} ended before ${pattern}:\n${output}`)));
          look();
        }),
      async [Symbol.asyncDispose]() {
        if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
        await ended;
      },
    };
  }

  /** Bytes of all installed files, and of the blocks of the disk that they take. */
  sizes(): { readonly bytes: number; readonly diskBytes: number } {
    let [bytes, diskBytes] = [0, 0];
    for (const entry of readdirSync(this.file("node_modules"), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const { size, blocks } = statSync(join(entry.parentPath, entry.name));
      bytes += size;
      diskBytes += blocks * 512;
    }
    return { bytes, diskBytes };
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }
}

/** Programs that building from source needs and that the given PATH has. */
export function buildToolsOn(path: string): readonly string[] {
  const tools = ["c++", "g++", "gcc", "cc", "clang", "make", "python", "python3"];
  return tools.filter((tool) =>
    path.split(delimiter).some((folder) => statSync(join(folder, tool), { throwIfNoEntry: false }) !== undefined),
  );
}
