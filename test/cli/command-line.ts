// Runs the built command line as a user would, in a separate process.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { vi } from "vitest";
import { loadAddon } from "../../src/backends/cpu/addon.js";

const ROOT = new URL("../../", import.meta.url);
export const COMMAND_LINE = fileURLToPath(new URL("dist/cli/main.js", ROOT));
/** Long enough for a busy machine, short enough to call it a hang. */
const HANG_MS = 60_000;

export interface RunOptions {
  readonly input?: string;
  readonly cwd?: string;
  /** What happens to the process once it has written something: a signal, or its output is no longer read. */
  readonly onFirstOutput?: NodeJS.Signals | "stop reading";
  /** Another path to the program than its own. */
  readonly program?: string;
}

export interface Finished {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function fixture(name: string): string {
  return fileURLToPath(new URL(`test/fixtures/${name}`, ROOT));
}

/** The smallest model, for runs whose text does not matter. */
export const SMALL_MODEL = fixture("models/fable-3m-qwen2-Q4_K_M.gguf");

/** The warning that every command prints on a machine without the addon; test/cli/doctor.test.ts checks it. */
const FALLBACK_WARNING = /^\(node:\d+\) \[ROCMFORGE_FALLBACK\] .*\n(?:\(Use `node --trace-warnings .*\n)?/gm;
const lacksAddon = "reason" in loadAddon();

export function rocmforge(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  if (!existsSync(COMMAND_LINE)) throw new Error("dist/cli/main.js is not there; `npm run build` makes it");
  const child = spawn(process.execPath, [options.program ?? COMMAND_LINE, ...args], {
    cwd: options.cwd,
    timeout: HANG_MS,
    killSignal: "SIGKILL",
  });
  let stdout = "";
  let stderr = "";
  const { onFirstOutput } = options;
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stdout.once("data", () => {
    if (onFirstOutput === "stop reading") child.stdout.destroy();
    else if (onFirstOutput !== undefined) child.kill(onFirstOutput);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  // A program that reads no input may end before all of it is written.
  child.stdin.on("error", () => {});
  child.stdin.end(options.input ?? "");
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) =>
      resolve({ status, stdout, stderr: lacksAddon ? stderr.replace(FALLBACK_WARNING, "") : stderr }),
    );
  });
}

/** stderr without the progress lines. */
export function complaints({ stderr }: Finished): string {
  return stderr.replace(/^rocmforge: (?:opening|loading|prefilling|reading|writing|window)\b.*\n/gm, "");
}

/**
 * The same without a process, whose start takes longer than what it does: for help, and mistakes that are found before a
 * model or a backend is opened. What only a process shows, as a status that does not come out, needs some tests of its own.
 */
export async function rocmforgeInProcess(args: readonly string[]): Promise<Finished> {
  const { run } = await import("../../src/cli/run.js");
  const written = { stdout: "", stderr: "" };
  const restored = (["stdout", "stderr"] as const).map((name) => {
    const stream = process[name];
    const listeners = stream.listeners("error");
    const spy = vi.spyOn(stream, "write").mockImplementation((text, ...rest) => {
      written[name] += String(text);
      for (const done of rest as readonly unknown[]) if (typeof done === "function") done();
      return true;
    });
    return (): void => {
      spy.mockRestore();
      for (const listener of stream.listeners("error"))
        if (!listeners.includes(listener)) stream.off("error", listener as () => void);
    };
  });
  try {
    const status = await run(args);
    return { status, ...written };
  } finally {
    for (const restore of restored) restore();
  }
}
