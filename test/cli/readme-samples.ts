// The command-line samples of the README and of docs/, run as printed: by a shell, in a folder with the files that they
// name, with `rocmforge` on its PATH.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import {
  commandsOf,
  DOCUMENT_BLOCKS,
  type DocumentBlock,
  SHELL_COMMANDS,
  withoutComment,
} from "../support/document-blocks.js";
import { heldOutExcerpt } from "../support/held-out-excerpt.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE } from "./command-line.js";

const EMBEDDED = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
/** Enough for a window of 512 tokens. */
const TEXT_CHARACTERS = 4000;
/** The line with the server's address. */
const GREETING = /^(?:rocmforge is listening on| {2}chat in a browser:) (?<url>\S+?)\/?$/m;
const HEALTH_TRIES = 100;
const HEALTH_PAUSE_MS = 100;
/** The time limit of one sample; the long ones take minutes. */
const HANG_MS = 600_000;

/** Lines that begin with the command, or pipe into it. */
const CALLS_ROCMFORGE = /^(?:[^#]*\| )?(?:npx )?rocmforge /;
/** Lines that name a model of the hub, or list what was pulled. */
const NEEDS_HUB = /\bhf:user\/repo\b/;

const samples = SHELL_COMMANDS.filter(({ command }) => CALLS_ROCMFORGE.test(command));

/** Every sample of every page, once, whatever the comment behind it. */
export const SAMPLES: readonly string[] = [...new Set(samples.map(({ command }) => withoutComment(command)))];

const inReadme = samples.filter(({ page }) => page === "README.md").map(({ command }) => withoutComment(command));

/** Those of the README. */
export const README_SAMPLES: readonly string[] = [...new Set(inReadme)];

/** Whether a sample starts a server, which runs until it is stopped. */
export const isServer = (line: string): boolean => /^(?:npx )?rocmforge (?:serve|run(?!.*--terminal))\b/.test(line);

/** Blocks about models of a hub: what one command pulls, the next one lists, runs or removes. */
export const HUB_BLOCKS: readonly (DocumentBlock & { readonly commands: readonly string[] })[] = DOCUMENT_BLOCKS.filter(
  ({ language, notRun, text }) => language === "sh" && notRun === undefined && NEEDS_HUB.test(text),
).map((block) => ({ ...block, commands: commandsOf(block).map(withoutComment) }));
const inHubBlocks = new Set(HUB_BLOCKS.flatMap(({ commands }) => commands));

/** Samples that start a server, without those that need a hub for it. */
export const SERVER_SAMPLES: readonly string[] = SAMPLES.filter((line) => isServer(line) && !inHubBlocks.has(line));

/** Samples that cannot run as printed, and which tests do the same; a comment before their block says so, too. */
const ELSEWHERE: readonly (readonly [line: RegExp, reason: string])[] = [
  [/--backend (?:cuda|hip)\b/, "needs a card; test/gpu runs these backends on an emulated one"],
  [/^rocmforge launch /, "starts a client that has to be installed; test/cli/launch.test.ts has others in their place"],
  [
    /^rocmforge doctor --(?:build|fix)/,
    "builds the addon anew under everything that runs; test/cli/doctor.test.ts builds a copy",
  ],
];
/** Samples that take minutes or write gigabytes, or that a test of npm test has anyway. */
const LONG = /^rocmforge (?:bench |synth |tune |verify)/;

/** Whether a sample cannot run as printed. */
export const cannotRun = (line: string): boolean => ELSEWHERE.some(([pattern]) => pattern.test(line));

/** Whether a sample is not run by itself: it cannot, belongs to a block, or runs until it is stopped. */
export const isElsewhere = (line: string): boolean => cannotRun(line) || inHubBlocks.has(line) || isServer(line);
export const isLong = (line: string): boolean => LONG.test(line);

export interface SampleResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder like a reader has: `model.gguf`, here the embedded model, a text, a file of keys, the package for npx. */
export class ReadmeFolder extends TemporaryFolder {
  readonly #environment: Readonly<Record<string, string>>;

  /** Adds to the environment of its commands. */
  constructor(environment: Readonly<Record<string, string>> = {}) {
    super();
    this.#environment = environment;
    for (const folder of ["bin", "node_modules/.bin"]) {
      const program = this.file(`${folder}/rocmforge`);
      mkdirSync(dirname(program), { recursive: true });
      writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${COMMAND_LINE}" "$@"\n`);
      chmodSync(program, 0o755);
    }
    writeFileSync(this.file("package.json"), JSON.stringify({ name: "project", private: true }));
    symlinkSync(EMBEDDED, this.file("model.gguf"));
    writeFileSync(this.file("keys.txt"), "secret-key\n");
    writeFileSync(this.file("text.txt"), heldOutExcerpt().slice(0, TEXT_CHARACTERS));
  }

  async run(line: string): Promise<SampleResult> {
    const child = this.#start(line);
    let [stdout, stderr] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const [status] = (await once(child, "close")) as [number | null];
    return { status, stdout, stderr };
  }

  /** Starts a server on a free port, waits until it has greeted and is healthy, and stops it. */
  async serve(line: string): Promise<{ readonly health: number; readonly status: number | null }> {
    const quiet = / run\b/.test(line) ? " --no-open" : "";
    const child = this.#start(`exec ${line.replace(/^npx /, "")} --port 0${quiet}`);
    const closed = once(child, "close") as Promise<[number | null]>;
    const url = await new Promise<string>((resolve, reject) => {
      let [stdout, stderr] = ["", ""];
      child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        stdout += text;
        const found = GREETING.exec(stdout)?.groups?.["url"];
        if (found !== undefined) resolve(found);
      });
      void closed.then(([status]) => reject(new Error(`${line} ended with ${status}:\n${stdout}\n${stderr}`)));
    });
    let health = 0;
    for (let tries = 0; health !== 200 && tries < HEALTH_TRIES; tries++) {
      if (tries > 0) await pause(HEALTH_PAUSE_MS);
      ({ status: health } = await fetch(`${url}/health`));
    }
    child.kill("SIGTERM");
    const [status] = await closed;
    return { health, status };
  }

  #start(line: string): ChildProcess {
    const PATH = `${this.file("bin")}${delimiter}${process.env["PATH"] ?? ""}`;
    return spawn("/bin/sh", ["-c", line], {
      cwd: this.path,
      env: { ...process.env, ...this.#environment, PATH },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: HANG_MS,
      killSignal: "SIGKILL",
    });
  }
}
