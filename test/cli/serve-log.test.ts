// `rocmforge serve` whose log cannot be written: a full disk, an unread pipe, a closed one. It serves and
// stops all the same.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { closeSync, constants, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { missingProgram } from "./completing-shell.js";
import { COMMAND_LINE, SMALL_MODEL } from "./command-line.js";

const HEALTH_CHECKS = 40;
/** Far below the 30 s that requests may take, far above what a busy machine needs. */
const STOP_MS = 60_000;
const DEVICE_THAT_IS_FULL = "/dev/full";

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp();
});

function opened(path: string, flags: number): number {
  const descriptor = openSync(path, flags);
  cleanUps.push(() => closeSync(descriptor));
  return descriptor;
}

/** A full pipe, and the descriptor to write to. `keepsReader`: its reading end stays open, but is not read. */
function fullPipe({ keepsReader }: { readonly keepsReader: boolean }): number {
  const folder = new TemporaryFolder();
  cleanUps.push(() => folder[Symbol.dispose]());
  execFileSync("mkfifo", [folder.file("pipe")]);
  const reader = openSync(folder.file("pipe"), constants.O_RDWR | constants.O_NONBLOCK);
  const writer = opened(folder.file("pipe"), constants.O_WRONLY);
  try {
    for (;;) writeSync(reader, Buffer.alloc(4096, "x"));
  } catch {
    // The pipe is full.
  }
  if (keepsReader) cleanUps.push(() => closeSync(reader));
  else closeSync(reader);
  return writer;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function healthOf(url: string): Promise<number> {
  return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(STOP_MS) })).status;
}

/** Starts a server, requests its health, stops it, and returns its exit status. */
async function serveAndStop(stdout: number | "ignore", stderr: number): Promise<number | null | "hangs"> {
  const port = await freePort();
  const child = spawn(
    process.execPath,
    [COMMAND_LINE, "serve", "--port", String(port), "-m", SMALL_MODEL, "--log-level", "trace"],
    { stdio: ["ignore", stdout, stderr] },
  );
  cleanUps.push(() => child.kill("SIGKILL"));
  const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    const status = await Promise.race([healthOf(url).catch(() => 0), ended.then((code) => `ended with ${code}`)]);
    if (status === 200) break;
    if (typeof status === "string") throw new Error(status);
    await pause(50);
  }
  for (let count = 0; count < HEALTH_CHECKS; count++) expect(await healthOf(url)).toBe(200);
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "Once", max_tokens: 4 }),
    signal: AbortSignal.timeout(STOP_MS),
  });
  expect(answer.status).toBe(200);
  child.kill("SIGTERM");
  return await Promise.race([ended, pause(STOP_MS, "hangs" as const)]);
}

describe("a log that cannot be written", () => {
  it("does not stop serving on a full disk", async () => {
    const full = opened(DEVICE_THAT_IS_FULL, constants.O_WRONLY);
    expect(await serveAndStop("ignore", full)).toBe(0);
  });

  it("does not stop serving if standard output and error are not read", async () => {
    const pipe = fullPipe({ keepsReader: true });
    expect(await serveAndStop(pipe, pipe)).toBe(0);
  });

  it("does not stop serving if standard output and error are closed pipes", async () => {
    const pipe = fullPipe({ keepsReader: false });
    expect(await serveAndStop(pipe, pipe)).toBe(0);
  });
});

const noTerminal = missingProgram("script");
const why = noTerminal === undefined ? "" : ` (skipped: ${noTerminal})`;
describe.skipIf(noTerminal !== undefined)(`a log on a terminal${why}`, () => {
  const ESCAPE = "\u001b";

  /** The output of a server that listens and ends because its model is none. */
  function logged(options: string, environment: Readonly<Record<string, string>>): string {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("model.gguf"), "no model");
    const model = folder.file("model.gguf");
    const command = `"${process.execPath}" "${COMMAND_LINE}" serve --port 0 -m "${model}" ${options}`;
    // Node takes the terminal of a continuous integration service for one without colours.
    const unset = { NO_COLOR: undefined, FORCE_COLOR: undefined, CI: undefined, TMUX: undefined };
    const env = { ...process.env, TERM: "xterm-256color", ...unset, ...environment };
    return spawnSync("script", ["-qec", command, "/dev/null"], { env, input: "", encoding: "utf8", timeout: 60_000 })
      .stdout;
  }

  it("is text with colours", () => {
    expect(logged("", {})).toMatch(
      new RegExp(
        String.raw`${ESCAPE}\[2m\d\d:\d\d:\d\d${ESCAPE}\[0m ${ESCAPE}\[32minfo ${ESCAPE}\[0m Server listening`,
      ),
    );
  });

  it("has no colours if NO_COLOR is set", () => {
    const text = logged("", { NO_COLOR: "1" });
    expect(text).toMatch(/^\d\d:\d\d:\d\d info {2}Server listening/m);
    expect(text).not.toContain(`${ESCAPE}[3`);
  });

  it("is JSON if that is asked for", () => {
    expect(logged("--log-format json", {})).toMatch(/^\{"level":30,.*"msg":"Server listening at http/m);
  });
});
