// Runs another program in the place of this one: it has the terminal, gets the signals, and its exit status is ours.

import { spawn } from "node:child_process";
import { constants } from "node:os";
import { isatty } from "node:tty";

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
/** Signals that a terminal sends to every process in its foreground. */
const FROM_TERMINAL: ReadonlySet<string> = new Set(["SIGINT", "SIGQUIT"]);
/** Shells report 128 plus the signal's number for a program that was ended by a signal. */
const SIGNAL_STATUS_BASE = 128;

/** A program, its arguments and its whole environment. */
interface ChildProgram {
  readonly path: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
}

/** Runs the program with this process's input and output; resolves with its exit status. */
export async function runChild({ path, args, environment }: ChildProgram): Promise<number> {
  const child = spawn(path, [...args], { stdio: "inherit", env: environment });
  const hasTerminal = isatty(process.stdin.fd);
  const forward = (signal: NodeJS.Signals): void => {
    // The terminal has sent it to the child as well, which would take a second one for another key press.
    if (!(hasTerminal && FROM_TERMINAL.has(signal))) child.kill(signal);
  };
  for (const signal of FORWARDED) process.on(signal, forward);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) =>
        resolve(code ?? SIGNAL_STATUS_BASE + constants.signals[signal ?? "SIGKILL"]),
      );
    });
  } finally {
    for (const signal of FORWARDED) process.off(signal, forward);
  }
}
