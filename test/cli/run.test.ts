// `rocmforge run`: from a model's name to an answer, in the browser's place and in the terminal.

import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { delimiter } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HubEnvironment } from "../hub/hub-environment.js";
import { TestHub } from "../hub/test-hub.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, rocmforge, SMALL_MODEL } from "./command-line.js";
import { Served } from "./served.js";

const EMBEDDED_MODEL = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));
const HELLO = { messages: [{ role: "user", content: "Hello!" }], temperature: 0, max_tokens: 8 };
const NO_DISPLAY = { DISPLAY: "", WAYLAND_DISPLAY: "" };
const DEFAULT_PORT = 8080;

/** Listens on a port, so that nothing else can; undefined if another program does already. */
async function occupy(port: number): Promise<Server | undefined> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

describe("a model of a hub", () => {
  let hub: TestHub;
  let environment: HubEnvironment;

  beforeEach(async () => {
    hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes: readFileSync(EMBEDDED_MODEL) }]);
    environment = new HubEnvironment(hub);
  });

  afterEach(async () => {
    environment[Symbol.dispose]();
    await hub[Symbol.asyncDispose]();
  });

  it("is previewed, downloaded, served and answers, and SIGTERM stops it", async () => {
    await using served = await Served.run([`hf:${hub.repository}`, "--port", "0"], NO_DISPLAY);
    expect(served.stderr).toMatch(/^rocmforge: hf:tester\/fable-GGUF\/fable-Q4_K_M\.gguf: llama, .* MB$/m);
    expect(served.stderr).toMatch(/^rocmforge: fits on \w+: /m);
    const page = await fetch(`${served.url}/`, { headers: { accept: "text/html" } });
    expect(page.status).toBe(200);
    expect(page.headers.get("content-type")).toMatch(/^text\/html/);
    const answer = await served.post("/v1/chat/completions", HELLO);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ model: "fable-Q4_K_M", choices: [{ message: { role: "assistant" } }] });
    await served.until(() =>
      /^fable-Q4_K_M is ready, a context of [\d,]+ tokens; Ctrl-C stops it$/m.test(served.stdout),
    );
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
    // The second time nothing is downloaded.
    const sent = hub.sentBytes;
    const again = await rocmforge(["run", `hf:${hub.repository}`, "--terminal", "--offline"], { input: "/exit\n" });
    expect(again).toMatchObject({ status: 0, stdout: "" });
    expect(hub.sentBytes).toBe(sent);
  });
});

describe("the page", () => {
  it("answers before the model is loaded, and an early stop is clean", async () => {
    await using served = await Served.run(["--port", "0", "--backend", "reference"], NO_DISPLAY);
    expect((await fetch(`${served.url}/`, { headers: { accept: "text/html" } })).status).toBe(200);
    expect((await fetch(`${served.url}/health`)).status).toBe(503);
    served.kill("SIGINT");
    expect(await served.status).toBe(0);
    expect(served.stderr).toContain("rocmforge: stopped before the model was loaded");
  });

  describe.skipIf(process.platform !== "linux")("of a machine with a display (skipped unless it is Linux)", () => {
    /** A machine with a display, whose `xdg-open` writes down what it is to open. */
    class Desktop extends TemporaryFolder {
      readonly #opened = this.file("opened");

      constructor(status = 0) {
        super();
        writeFileSync(this.file("xdg-open"), `#!/bin/sh\nprintf '%s\\n' "$@" >>'${this.#opened}'\nexit ${status}\n`);
        chmodSync(this.file("xdg-open"), 0o755);
      }

      get variables(): Record<string, string> {
        return { DISPLAY: ":7", PATH: `${this.path}${delimiter}${process.env["PATH"] ?? ""}` };
      }

      get opened(): string {
        return existsSync(this.#opened) ? readFileSync(this.#opened, "utf8") : "";
      }
    }

    it("is opened in the browser", async () => {
      using desktop = new Desktop();
      await using served = await Served.run([SMALL_MODEL, "--port", "0"], desktop.variables);
      expect(served.stdout).toContain("opening it now");
      while (desktop.opened === "") await pause(20);
      expect(desktop.opened).toBe(`${served.url}/\n`);
    });

    it("is printed if the browser cannot be opened", async () => {
      using desktop = new Desktop(3);
      await using served = await Served.run([SMALL_MODEL, "--port", "0"], desktop.variables);
      await served.until(() => served.stderr.includes(`no browser could be opened; open ${served.url}/ in one`));
    });

    it("is not opened with --no-open or without a display", async () => {
      using desktop = new Desktop();
      await using shy = await Served.run([SMALL_MODEL, "--port", "0", "--no-open"], desktop.variables);
      await using headless = await Served.run([SMALL_MODEL, "--port", "0"], { ...desktop.variables, ...NO_DISPLAY });
      for (const served of [shy, headless]) {
        await served.until(() => served.stdout.includes("is ready"));
        expect(served.stdout).not.toContain("opening");
      }
      expect(desktop.opened).toBe("");
    });
  });
});

describe("the port", () => {
  it("is the next free one if the default is taken", async () => {
    const other = await occupy(DEFAULT_PORT);
    try {
      await using served = await Served.run([SMALL_MODEL], NO_DISPLAY);
      expect(Number(new URL(served.url).port)).toBeGreaterThan(DEFAULT_PORT);
      expect(served.stderr).toMatch(/^rocmforge: another program listens on port 8080; using \d+ \(--port/m);
    } finally {
      other?.close();
    }
  });

  it("is another one for each of several that start at once", async () => {
    const servers = await Promise.all([1, 2, 3].map(async () => await Served.run([SMALL_MODEL], NO_DISPLAY)));
    try {
      expect(new Set(servers.map(({ url }) => url)).size).toBe(3);
    } finally {
      await Promise.all(servers.map(async (served) => await served[Symbol.asyncDispose]()));
    }
  });

  it("rejects one that was asked for and is taken", async () => {
    const other = (await occupy(0))!;
    const { port } = other.address() as AddressInfo;
    const refused = await rocmforge(["run", SMALL_MODEL, "--port", String(port)]);
    other.close();
    expect(refused).toMatchObject({ status: 2, stdout: "" });
    expect(complaints(refused)).toContain(`[run] --port: expected one that is free, found ${port}, which`);
  });
});

describe("--terminal", () => {
  it("chats over a pipe, with the embedded model unless another is given", async () => {
    const input = "Tell me about the fox.\n/clear\n/help\n/exit\nnot read any more\n";
    const { status, stdout, stderr } = await rocmforge(["run", "--terminal", "--ctx", "64"], { input });
    expect(status).toBe(0);
    expect(stderr).toContain("started a new conversation");
    const [answer] = stdout.split("\n  /help");
    expect(answer.trim()).toMatch(/\w+ \w+/);
    expect(stdout).toContain("/regenerate");
  });

  it("rejects a file that does not exist", async () => {
    const refused = await rocmforge(["run", "no-such-model.gguf", "--terminal"]);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).toContain("no-such-model.gguf: no such file");
  });
});

it.each<[args: string[], line: RegExp, status?: number]>([
  [["run", "a.gguf", "b.gguf"], /unexpected argument "b\.gguf"/],
  [["run", ""], /--model: expected a file or the name of a model/],
  [["run", "--terminal", "--port", "8081"], /\[run\] --terminal: expected no options of a server, found --port/],
  // Before the hub is asked for anything.
  [["run", "hf:user/repo", "--log-level", "loud"], /\[run\] --log-level: expected silent, .*found loud/],
  [["run", "hf:user/repo", "--api-key-file", "/no/such/file"], /\/no\/such\/file: no such file/, 1],
  [["run", "name=no-such-model.gguf"], /\.\/name=no-such-model\.gguf: expected a model file, found none/, 1],
  [["run", SMALL_MODEL, "--log-format", "xml"], /\[run\] --log-format: expected auto, pretty, json, found "xml"/],
])("rejects %j", async (args, line, status = 2) => {
  const refused = await rocmforge(args);
  expect(refused).toMatchObject({ status, stdout: "" });
  expect(complaints(refused)).toMatch(line);
});
