// The README's command-line samples, run as printed: by a shell, in a folder with the files that they name, with
// `rocmforge` on its PATH.

import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE, fixture } from "./command-line.js";

const page = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const shell = [...page.matchAll(/^```sh\n(?<text>[^]*?)^```$/gm)]
  .map(({ groups }) => groups?.["text"] ?? "")
  .join("\n");
const EMBEDDED = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
/** Enough for a window of 512 tokens. */
const TEXT_CHARACTERS = 4000;

/** Lines that begin with the command, or pipe into it, including a trailing comment. */
export const SAMPLES: readonly string[] = shell.split("\n").filter((line) => /^(?:[^#]*\| )?rocmforge /.test(line));

/** Samples that a test cannot run, and why. */
const ELSEWHERE: readonly (readonly [line: RegExp, reason: string])[] = [
  [/--backend (?:cuda|hip)\b/, "needs a card; test/gpu runs these backends on an emulated one"],
  [
    /^rocmforge serve /,
    "runs until it is stopped; test/cli/serve.test.ts and test/server/serving/readme.test.ts start it",
  ],
  [/^rocmforge launch /, "starts a client that has to be installed; test/cli/launch.test.ts has others in their place"],
  [/^rocmforge (?:pull|list|rm)\b/, "needs a hub; test/cli/pull.test.ts runs these with one on localhost"],
  [
    /^rocmforge doctor --build/,
    "builds the addon anew under everything that runs; test/cli/doctor.test.ts builds a copy",
  ],
];
/** Samples that take minutes or write gigabytes. */
const LONG = /^rocmforge (?:bench|synth) /;

export const isElsewhere = (line: string): boolean => ELSEWHERE.some(([pattern]) => pattern.test(line));
export const isLong = (line: string): boolean => LONG.test(line);

export interface SampleResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder like the README's reader has: `model.gguf`, here the embedded model, and a text. */
export class ReadmeFolder extends TemporaryFolder {
  constructor() {
    super();
    mkdirSync(this.file("bin"));
    writeFileSync(this.file("bin/rocmforge"), `#!/bin/sh\nexec "${process.execPath}" "${COMMAND_LINE}" "$@"\n`);
    chmodSync(this.file("bin/rocmforge"), 0o755);
    symlinkSync(EMBEDDED, this.file("model.gguf"));
    writeFileSync(
      this.file("text.txt"),
      readFileSync(fixture("text/held-out-excerpt.txt"), "utf8").slice(0, TEXT_CHARACTERS),
    );
  }

  run(line: string): SampleResult {
    const env = { ...process.env, PATH: `${this.file("bin")}${delimiter}${process.env["PATH"] ?? ""}` };
    const { status, stdout, stderr } = spawnSync("/bin/sh", ["-c", line], {
      cwd: this.path,
      env,
      encoding: "utf8",
      input: "",
      maxBuffer: 2 ** 26,
    });
    return { status, stdout, stderr };
  }
}
