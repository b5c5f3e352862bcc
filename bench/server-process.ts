// A server in a process of its own, as the benchmarks over HTTP start it, and when it is ready.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const READY_TIMEOUT_MS = 300_000;
const LOOK_MS = 5;
/** Linux counts a process's time in hundredths of a second. */
const TICK_MS = 10;

/** A started server; disposing it ends the process. */
export interface ServerProcess extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly startMs: number;
  readonly child: ChildProcess;
}

/** How a server is started. */
export interface ServerOptions {
  /** Folder of the package whose build is started. */
  readonly folder: string;
  readonly path: string;
  readonly backend: string;
  readonly contextTokens: number;
  /** Further arguments of `rocmforge serve`. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a server and resolves when it listens. */
export async function startServer(options: ServerOptions): Promise<ServerProcess> {
  const { folder, path, backend, contextTokens, args = [], env = {} } = options;
  const port = await freePort();
  const startMs = performance.now();
  const all = ["serve", "-m", path, "--backend", backend, "--ctx", String(contextTokens), "--port", String(port)];
  const command = [join(folder, "dist", "cli", "main.js"), ...all, "--log-level", "warn", ...args];
  // With this process's flags: --cpu-prof then profiles the server, too.
  const child = spawn(process.execPath, [...inheritedFlags(process.execArgv), ...command], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
  };
  const url = `http://127.0.0.1:${port}`;
  while ((await answer(`${url}/health`)) === undefined) {
    if (child.exitCode !== null) throw new Error(`the server ended with status ${child.exitCode}`);
    if (performance.now() - startMs > READY_TIMEOUT_MS) throw new Error("the server does not listen");
    await pause(LOOK_MS);
  }
  return { url, port, startMs, child, [Symbol.asyncDispose]: stop };
}

/** Flags of Node that give it a script, as `node -e SCRIPT` does. */
const SCRIPT_FLAG = /^(?:-e|-p|-pe|--eval|--print|--input-type)(?:$|=)/;

/** The flags of Node without those that would run the caller's script again instead of the server. */
export function inheritedFlags(flags: readonly string[]): readonly string[] {
  const isValue = (flag: string, index: number): boolean =>
    index > 0 && !flag.startsWith("-") && SCRIPT_FLAG.test(flags[index - 1]) && !flags[index - 1].includes("=");
  return flags.filter((flag, index) => !SCRIPT_FLAG.test(flag) && !isValue(flag, index));
}

/** Both counted from the start: the model is loaded, and `/health` reports that the server is ready. */
export async function becameReady({
  url,
  startMs,
}: ServerProcess): Promise<{ readonly loadedMs: number; readonly readyMs: number }> {
  let loadedMs: number | undefined;
  let readyMs: number | undefined;
  while (loadedMs === undefined || readyMs === undefined) {
    if (performance.now() - startMs > READY_TIMEOUT_MS) throw new Error("the server does not become ready");
    if (readyMs === undefined && (await answer(`${url}/health`))?.status === 200) readyMs = performance.now() - startMs;
    const models = (await (await fetch(`${url}/v1/models`)).json()) as {
      readonly data: readonly { readonly state: string }[];
    };
    if (loadedMs === undefined && models.data[0].state === "loaded") loadedMs = performance.now() - startMs;
    await pause(LOOK_MS);
  }
  // A server that reports ready before its model is loaded counts as ready when it is loaded.
  return { loadedMs, readyMs: Math.max(loadedMs, readyMs) };
}

/** Processor time of the server so far, in milliseconds; undefined if the system does not tell. */
export function processorMs({ child: { pid } }: ServerProcess): number | undefined {
  if (pid === undefined || process.platform !== "linux") return undefined;
  // After the command's name in parentheses; the 12th and 13th field from there are user and system time.
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

async function answer(url: string): Promise<Response | undefined> {
  try {
    return await fetch(url);
  } catch {
    return undefined;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}
