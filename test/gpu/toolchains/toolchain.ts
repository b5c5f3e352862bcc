// A compiler as these tests use it: source and defines in, what each kernel takes of the machine out, or its complaints.

import { execFile } from "node:child_process";
import type { KernelUse } from "./code-object.js";
import type { Defines } from "../../../src/backends/gpu/kernels/kernel-source.js";
import type { Target } from "./targets.js";

export interface CompileRequest {
  readonly name: string;
  readonly source: string;
  readonly defines: Defines;
  readonly target: Target;
}

export interface Toolchain {
  /** For people: name and version. */
  readonly name: string;
  /** Whatever changes its results. */
  readonly identity: string;
  /** Throws what the compiler said. Undefined where it says nothing of its kernels. */
  compile(request: CompileRequest): Promise<readonly KernelUse[] | undefined>;
}

/** Why a toolchain is not used. */
export interface MissingToolchain {
  readonly missing: string;
}

/** The longest module takes a tenth of this on a busy machine. */
const LIMIT_MS = 300_000;
const MOST_OUTPUT_BYTES = 16 << 20;
const SHOWN_CHARACTERS = 4000;

/** What the program wrote to standard error; throws that where it failed. */
export function runCompiler(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { timeout: LIMIT_MS, killSignal: "SIGKILL", maxBuffer: MOST_OUTPUT_BYTES },
      (error, _stdout, stderr) => {
        if (error === null) return resolve(stderr);
        const { killed, signal, code } = error;
        const ending =
          killed === true
            ? `had not ended after ${LIMIT_MS / 1000} s`
            : typeof signal === "string"
              ? `was ended by ${signal}`
              : `ended with status ${code}`;
        reject(new Error(`${command} ${ending}\n${stderr.slice(0, SHOWN_CHARACTERS)}`));
      },
    );
  });
}

/** What a program says of its version, or undefined where it does not run. */
export async function versionOf(command: string): Promise<string | undefined> {
  return await new Promise((resolve) => {
    execFile(command, ["--version"], { timeout: LIMIT_MS }, (error, stdout) =>
      resolve(error === null ? stdout : undefined),
    );
  });
}

export function defineArguments({ target, defines }: Pick<CompileRequest, "target" | "defines">): readonly string[] {
  return [`-DWAVE=${target.device.waveSize}`, ...Object.entries(defines).map(([name, value]) => `-D${name}=${value}`)];
}
