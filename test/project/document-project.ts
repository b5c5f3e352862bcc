// A reader's project, in which the programs of the README and of docs/ run as printed: the installed package, the model files
// that they name, a hub with the repository that they name, and a server where they expect one.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Served } from "../cli/served.js";
import { HubEnvironment } from "../hub/hub-environment.js";
import { TestHub } from "../hub/test-hub.js";
import type { DocumentProgram } from "../support/document-blocks.js";
import { PackedPackage, ROOT } from "./packed-package.js";

const EMBEDDED = join(ROOT, "models", "fable-10m-Q4_K_M.gguf");
const MODEL_FILES = ["model.gguf", "small.gguf", "large.gguf"];
const PRINTED_ADDRESS = "127.0.0.1:8080";
const COMPILER = join(ROOT, "node_modules", "typescript", "bin", "tsc");
const COMPILER_OPTIONS = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--allowJs"];
const HANG_MS = 120_000;

/** Imports of the AI SDK, which needs a newer Node and packages of its own. */
export const usesAiSdk = ({ text }: DocumentProgram): boolean => /from "ai"/.test(text);

/** The name of a program's file. */
const moduleName = ({ page, line }: DocumentProgram): string => `${page.replaceAll(/[/.]/g, "-")}-${line}`;

/** What a program printed, and how it ended. */
export interface ProgramResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The project, with programs that the compiler has checked. */
export class DocumentProject implements AsyncDisposable {
  readonly #package = new PackedPackage();
  readonly #hub: TestHub;
  readonly #environment: HubEnvironment;
  readonly #server: Served;

  private constructor(hub: TestHub, server: Served) {
    this.#hub = hub;
    this.#environment = new HubEnvironment(hub);
    this.#server = server;
    for (const name of MODEL_FILES) symlinkSync(EMBEDDED, this.#package.file(name));
  }

  /** Compiles the programs, strictly; throws with what the compiler says. `packages` are linked beside the package. */
  static async create(
    programs: readonly DocumentProgram[],
    packages: Readonly<Record<string, string>>,
  ): Promise<DocumentProject> {
    const hub = await TestHub.start([{ path: "model-Q4_K_M.gguf", bytes: readFileSync(EMBEDDED) }]);
    hub.repository = "user/repo";
    const project = new DocumentProject(hub, await Served.start(["--log-level", "silent"]));
    project.#link(packages);
    project.#compile(programs);
    return project;
  }

  #link(packages: Readonly<Record<string, string>>): void {
    for (const [name, folder] of Object.entries(packages)) {
      const link = this.#package.file(join("node_modules", name));
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(folder, link);
    }
  }

  #compile(programs: readonly DocumentProgram[]): void {
    const files = programs.map((program) => {
      const file = `${moduleName(program)}.${program.language}`;
      const text = program.text.replaceAll(PRINTED_ADDRESS, new URL(this.#server.url).host);
      // The export makes it a module, also if it imports nothing.
      writeFileSync(this.#package.file(file), `${text}\nexport {};\n`);
      return file;
    });
    try {
      this.#package.node(COMPILER, ...COMPILER_OPTIONS, "--outDir", "built", ...files);
    } catch (error) {
      throw new Error(`the compiler refuses a program of the documents:\n${(error as { stdout: string }).stdout}`, {
        cause: error,
      });
    }
  }

  /** Runs a compiled program to its end. */
  async run(program: DocumentProgram, node: string = process.execPath): Promise<ProgramResult> {
    const child = spawn(node, [join("built", `${moduleName(program)}.js`)], {
      cwd: this.#package.path,
      env: { ...process.env, ...this.#environment.variables(this.#hub) },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: HANG_MS,
      killSignal: "SIGKILL",
    });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const [status] = (await once(child, "close")) as [number | null];
    return { status, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#environment[Symbol.dispose]();
    this.#package[Symbol.dispose]();
    await this.#server[Symbol.asyncDispose]();
    await this.#hub[Symbol.asyncDispose]();
  }
}
