// Runs the tools behind the npm scripts: one line on stderr for each, and one helpful sentence if one fails. Invariant:
// needs nothing but Node, since it also runs on a clone without installed packages. Progress goes to stderr, so that
// stdout contains only the result (a story, a test count, `npm pack --json`).

import { spawn } from "node:child_process";
import { constants } from "node:os";

const KEPT_OUTPUT_CHARACTERS = 200_000;
const SHOWN_TAIL_LINES = 30;
const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/** A failure that is already explained: its message is the sentence to print, `tail` the last output of the tool. */
export class ScriptError extends Error {
  constructor(sentence, { tail = "", exitCode = 1 } = {}) {
    super(sentence);
    this.tail = tail;
    this.exitCode = exitCode;
  }
}

/** Explanations of tool failures by their output; the first matching pattern counts. */
const EXPLANATIONS = [
  [/ENOSPC|no space left/i, "the disk is full: free some space and run the same command again"],
  [
    /EUSAGE[\s\S]*package-lock|can only install packages when your package\.json/i,
    "package-lock.json does not fit package.json: run `npm install`, look at the change, and run this again",
  ],
  [/EINTEGRITY/, "a download does not match package-lock.json: run `npm cache clean --force` and try again"],
  [
    /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENOTCACHED|network request/,
    "the package registry cannot be reached: check the network, the proxy or `npm config get registry`, and run this again",
  ],
  [/\bE40[134]\b|ETARGET/, "the package registry refused a package: check `npm config get registry` and its login"],
  [/EACCES|EPERM|EROFS/, "a file or folder may not be written: check who owns this checkout and the npm cache"],
  [/EBADENGINE/, "a package does not run on this version of Node: install a newer Node"],
  [
    /gyp ERR!|not found: make|g\+\+: (?:command )?not found|No CMAKE_CXX_COMPILER/i,
    "a C++ compiler is missing: install one (on Debian: `apt-get install g++ make`) and run this again",
  ],
  [/heap out of memory|ENOMEM|Killed/, "there is not enough memory: close something large and run this again"],
  [/Cannot find native binding|MODULE_NOT_FOUND/, "the install is incomplete: remove node_modules and run this again"],
];

/** @returns {string | undefined} the sentence for a tool's output, if one fits */
export function explain(output) {
  return EXPLANATIONS.find(([pattern]) => pattern.test(output))?.[1];
}

function tailOf(output) {
  return output.trimEnd().split("\n").slice(-SHOWN_TAIL_LINES).join("\n");
}

export function seconds(sinceMs) {
  return `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
}

export function say(line) {
  process.stderr.write(`rocmforge: ${line}\n`);
}

/** Prints what is about to be done, does it, and completes the line with how long it took. */
export async function step(what, work) {
  const start = performance.now();
  process.stderr.write(`rocmforge: ${what} … `);
  try {
    const result = await work();
    process.stderr.write(`${seconds(start)}\n`);
    return result;
  } catch (error) {
    process.stderr.write(`failed after ${seconds(start)}\n`);
    throw error;
  }
}

/**
 * Runs a program to its end. With `show` its output is passed through as it comes; without, it is kept. A program
 * still running after `timeoutMs`, or without progress for `stall.afterMs` (`stall.progress` gives another value whenever
 * there was some), is ended with everything it started. A signal to us ends the program, then us.
 * @returns {Promise<{ exitCode: number, output: string, timedOut: boolean }>}
 */
export function runProgram(command, args, { cwd, env = process.env, show = false, timeoutMs, stall } = {}) {
  return new Promise((resolve, reject) => {
    const windows = process.platform === "win32";
    // A separate process group, so that ending a runner also ends its workers.
    const detached = (timeoutMs !== undefined || stall !== undefined) && !windows;
    // Windows starts npm.cmd only through a shell; every argument we pass is a plain word.
    const shell = windows && command.endsWith(".cmd");
    const stream = show ? "inherit" : "pipe";
    const child = spawn(command, args, { cwd, env, shell, detached, stdio: ["ignore", stream, stream] });
    const end = (signal) => (detached ? endGroup(child.pid, signal) : child.kill(signal));

    let output = "";
    const keep = (chunk) => {
      output = (output + chunk).slice(-KEPT_OUTPUT_CHARACTERS);
    };
    child.stdout?.setEncoding("utf8").on("data", keep);
    child.stderr?.setEncoding("utf8").on("data", keep);

    let timedOut = false;
    let received;
    const forward = (signal) => {
      received = signal;
      end(signal);
    };
    for (const signal of FORWARDED_SIGNALS) process.on(signal, forward);
    const onTimeout = () => {
      timedOut = true;
      end("SIGKILL");
    };
    const timer = timeoutMs === undefined ? undefined : setTimeout(onTimeout, timeoutMs);
    const watch = stall === undefined ? undefined : watchProgress(stall, onTimeout);
    const release = () => {
      clearTimeout(timer);
      clearInterval(watch);
      for (const signal of FORWARDED_SIGNALS) process.off(signal, forward);
    };

    child.on("error", (error) => {
      release();
      const missing = error.code === "ENOENT";
      reject(
        new ScriptError(
          `\`${command}\` ${missing ? "was not found: install it or put it on the PATH" : `could not be started: ${error.message}`}`,
        ),
      );
    });
    child.on("close", (exitCode, signal) => {
      release();
      if (received !== undefined) process.kill(process.pid, received);
      // The shell's convention for a program ended by a signal.
      resolve({ exitCode: exitCode ?? 128 + (constants.signals[signal] ?? 0), output, timedOut });
    });
  });
}

/** Calls `onStall` if there was no progress. Time while the machine was suspended does not count. */
function watchProgress({ afterMs, progress }, onStall) {
  const intervalMs = Math.max(10, Math.min(1000, afterMs / 10));
  let [last, idleMs, lookedMs] = [progress(), 0, performance.now()];
  return setInterval(() => {
    const [current, nowMs] = [progress(), performance.now()];
    idleMs = current === last ? idleMs + Math.min(nowMs - lookedMs, 2 * intervalMs) : 0;
    [last, lookedMs] = [current, nowMs];
    if (idleMs >= afterMs) onStall();
  }, intervalMs);
}

function endGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** Whether a process of that id exists. */
export function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Runs a tool as one announced step and throws a ScriptError that explains its failure. */
export function runTool(what, command, args, { otherwise, ...options } = {}) {
  return step(what, async () => {
    const { exitCode, output } = await runProgram(command, args, options);
    if (exitCode === 0) return output;
    throw new ScriptError(`${what} failed: ${explain(output) ?? otherwise ?? "see the output above"}`, {
      tail: tailOf(output),
      exitCode,
    });
  });
}

/**
 * The body of every script: a ScriptError is printed as its tail, its sentence and an exit status, anything else with
 * its stack.
 */
export async function main(work) {
  try {
    process.exitCode = (await work(process.argv.slice(2))) ?? 0;
  } catch (error) {
    if (!(error instanceof ScriptError)) {
      const sentence = typeof error?.code === "string" ? explain(error.code) : undefined;
      if (sentence === undefined) throw error;
      say(`${error.message}: ${sentence}`);
      process.exitCode = 1;
      return;
    }
    if (error.tail !== "") process.stderr.write(`${error.tail}\n`);
    say(error.message);
    process.exitCode = error.exitCode;
  }
}
