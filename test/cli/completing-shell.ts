// Shells that complete command lines of rocmforge, interactively in a terminal, with a program in its place that prints
// its arguments and knows two models.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter } from "node:path";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE } from "./command-line.js";

const HANG_MS = 60_000;
const MODELS = ["hf:tester/fable:Q4_K_M", "ollama:other:latest"];

/** What is typed, ␉ being the Tab key, and the arguments that the command then gets. */
export const COMPLETED: readonly (readonly [typed: string, args: readonly string[]])[] = [
  ["ser␉", ["serve"]],
  ["help doc␉", ["help", "doctor"]],
  ["serve --log-level deb␉", ["serve", "--log-level", "debug"]],
  ["serve --no-wa␉", ["serve", "--no-warm-up"]],
  ["generate --backend=ref␉", ["generate", "--backend=reference"]],
  ["generate --kv-type q␉", ["generate", "--kv-type", "q8_0"]],
  ["synth --shape gpt-o␉", ["synth", "--shape", "gpt-oss-20b"]],
  ["synth --type MXFP4_␉", ["synth", "--type", "MXFP4_MOE"]],
  ["launch cod␉", ["launch", "codex"]],
  ["completion zs␉", ["completion", "zsh"]],
  ["run hf:tes␉", ["run", "hf:tester/fable:Q4_K_M"]],
  ["run folder/al␉", ["run", "folder/alpha.gguf"]],
  ["run --port 0 hf:tester/f␉", ["run", "--port", "0", "hf:tester/fable:Q4_K_M"]],
  ["serve -m olla␉", ["serve", "-m", "ollama:other:latest"]],
  ["serve --model=folder/␉", ["serve", "--model=folder/alpha.gguf"]],
  ["rm hf:tester/fable:␉", ["rm", "hf:tester/fable:Q4_K_M"]],
  ["generate -f folder/␉", ["generate", "-f", "folder/alpha.gguf"]],
];

/** Why a program cannot be used here; undefined if it can. */
export function missingProgram(...programs: readonly string[]): string | undefined {
  const missing = programs.find(
    (program) => spawnSync(program, ["--version"], { timeout: HANG_MS }).error !== undefined,
  );
  return missing === undefined ? undefined : `${missing} is not installed`;
}

/** A folder in which shells complete. */
export class CompletingShell extends TemporaryFolder {
  readonly #env: NodeJS.ProcessEnv;

  constructor() {
    super();
    mkdirSync(this.file("bin"));
    mkdirSync(this.file("folder"));
    writeFileSync(this.file("folder/alpha.gguf"), "");
    const answer = `if [ "$1 $2" = "completion models" ]; then printf '%s\\n' ${MODELS.join(" ")}; exit; fi`;
    writeFileSync(this.file("bin/rocmforge"), `#!/bin/sh\n${answer}\nprintf 'GOT'; printf '[%s]' "$@"; echo\n`);
    chmodSync(this.file("bin/rocmforge"), 0o755);
    this.#env = {
      ...process.env,
      PATH: `${this.file("bin")}${delimiter}${process.env["PATH"] ?? ""}`,
      HOME: this.path,
      TERM: "dumb",
      INPUTRC: "/dev/null",
    };
  }

  /** Writes the script of a shell to a file, and returns its path. */
  script(shell: string): string {
    const path = this.file(`completion.${shell}`);
    writeFileSync(path, execFileSync(process.execPath, [COMMAND_LINE, "completion", shell], { timeout: HANG_MS }));
    return path;
  }

  /** The arguments of every command line that is typed into an interactive shell after some other lines. */
  type(shell: string, before: readonly string[], typed: readonly string[]): readonly string[] {
    const lines = [...before, ...typed.map((line) => `rocmforge ${line.replaceAll("␉", "\t")}`), "exit", ""];
    const { stdout } = spawnSync("script", ["-qec", shell, "/dev/null"], {
      cwd: this.path,
      env: this.#env,
      input: lines.join("\n"),
      encoding: "utf8",
      timeout: HANG_MS,
    });
    return stdout.split(/\r?\n/).flatMap((line) => /GOT(?<args>\[.*\])$/.exec(line)?.groups?.["args"] ?? []);
  }

  /** What fish offers for each command line. */
  fishOffers(lines: readonly string[]): readonly (readonly string[])[] {
    const asking = lines.map((line) => `echo @@; complete -C ${JSON.stringify(line)}`);
    const { stdout } = spawnSync(
      "fish",
      ["--no-config", "-c", [`source ${this.script("fish")}`, ...asking].join("; ")],
      {
        cwd: this.path,
        env: this.#env,
        encoding: "utf8",
        timeout: HANG_MS,
      },
    );
    const [, ...answers] = stdout.split(/^@@\n/m);
    return answers.map((answer) => answer.split("\n").flatMap((offer) => (offer === "" ? [] : offer.split("\t", 1))));
  }
}

/** Arguments as the program in rocmforge's place prints them. */
export function printed(args: readonly string[]): string {
  return args.map((argument) => `[${argument}]`).join("");
}
