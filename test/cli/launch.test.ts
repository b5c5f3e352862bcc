// `rocmforge launch` with programs that write down how they were started, in the place of the clients.

import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startServer, type TestServer } from "../../src/server/testing/test-server.js";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { HubEnvironment, MODEL_BYTES } from "../hub/hub-environment.js";
import { TestHub } from "../hub/test-hub.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE, type Finished, SMALL_MODEL } from "./command-line.js";

const HANG_MS = 120_000;

/** Records its arguments and environment, asks the server for a message if told to, and ends as told. */
const RECORDER = `#!${process.execPath}
const { writeFileSync } = require("node:fs");
const { RECORD, DO = "exit 0", ANTHROPIC_BASE_URL: url } = process.env;
const told = { args: process.argv.slice(2), env: process.env, signals: [] };
const write = () => writeFileSync(RECORD, JSON.stringify(told));
const [verb, value] = DO.split(" ");
if (verb === "exit") { write(); process.exit(Number(value)); }
if (verb === "die") { write(); process.kill(process.pid, value); setInterval(() => {}, 1000); }
if (verb === "wait") {
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"])
    process.on(name, () => { told.signals.push(name); write(); process.exit(7); });
  write();
  process.stdout.write("waiting\\n");
  setInterval(() => {}, 1000);
}
if (verb === "ask") {
  const body = { max_tokens: 4, messages: [{ role: "user", content: "Hi" }] };
  fetch(url + "/v1/messages", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
    .then((response) => response.json())
    .then((answer) => { told.answer = answer; write(); });
}
`;

interface Told {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly signals: readonly string[];
  readonly answer?: { readonly model: string; readonly usage: { readonly output_tokens: number } };
}

let folder: TemporaryFolder;
beforeAll(() => {
  folder = new TemporaryFolder();
  mkdirSync(folder.file("bin"));
  for (const program of ["claude", "codex", "opencode"]) {
    writeFileSync(folder.file(`bin/${program}`), RECORDER);
    chmodSync(folder.file(`bin/${program}`), 0o755);
  }
});
afterAll(() => folder[Symbol.dispose]());

let served: TestServer;
beforeEach(async () => {
  served = await startServer({}, [new FakeModel("large", 65_536)]);
});
afterEach(() => served[Symbol.asyncDispose]());

function begin(args: readonly string[], env: Readonly<Record<string, string | undefined>>): ChildProcess {
  const environment = { ...process.env, ROCMFORGE_API_KEYS: undefined, PATH: folder.file("bin"), ...env };
  return spawn(process.execPath, [COMMAND_LINE, "launch", ...args], { env: environment, timeout: HANG_MS });
}

function finished(child: ChildProcess): Promise<Finished> {
  let [stdout, stderr] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, stdout, stderr }));
  });
}

let runs = 0;

/** Runs the command; `told` is undefined if no client was started. */
async function launch(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}) {
  const record = folder.file(`record-${runs++}.json`);
  const result = await finished(begin(args, { RECORD: record, ...env }));
  return { ...result, told: existsSync(record) ? (JSON.parse(readFileSync(record, "utf8")) as Told) : undefined };
}

const at = (...args: readonly string[]): readonly string[] => [...args, "--url", served.url];

describe("what a client is started with", () => {
  test("Claude Code: the address, the model for everything, and no key of the user's", async () => {
    const { status, stderr, told } = await launch([...at("claude"), "--name", "large", "--", "-p", "--help", "a b"], {
      ANTHROPIC_API_KEY: "sk-ant-secret",
      CLAUDE_CODE_USE_BEDROCK: "1",
      HOME: "/home/somebody",
      NO_PROXY: "example.com",
    });
    expect([status, stderr, told?.args]).toEqual([0, "", ["-p", "--help", "a b"]]);
    expect(told?.env).toMatchObject({
      ANTHROPIC_BASE_URL: served.url,
      ANTHROPIC_AUTH_TOKEN: "none-needed",
      ANTHROPIC_MODEL: "large",
      ANTHROPIC_DEFAULT_FABLE_MODEL: "large",
      ANTHROPIC_DEFAULT_OPUS_MODEL: "large",
      ANTHROPIC_DEFAULT_SONNET_MODEL: "large",
      ANTHROPIC_DEFAULT_HAIKU_MODEL: "large",
      CLAUDE_CODE_SUBAGENT_MODEL: "large",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      HOME: "/home/somebody",
      NO_PROXY: "example.com,127.0.0.1",
    });
    expect(told?.env).not.toHaveProperty("ANTHROPIC_API_KEY");
    expect(told?.env).not.toHaveProperty("CLAUDE_CODE_USE_BEDROCK");
  });

  test("Codex: a provider by options, before the user's own arguments", async () => {
    const { status, told } = await launch([...at("codex"), "--name", "large", "--", "exec", "Hi"]);
    expect(status).toBe(0);
    expect(told?.args.slice(-2)).toEqual(["exec", "Hi"]);
    const options = told?.args.slice(0, -2) ?? [];
    expect(options.filter((_, index) => index % 2 === 0)).toEqual(options.filter((word) => word === "-c"));
    expect(options.filter((word) => word !== "-c")).toEqual([
      'model="large"',
      'model_provider="rocmforge"',
      'model_providers.rocmforge.name="rocmforge"',
      `model_providers.rocmforge.base_url="${served.url}/v1"`,
      'model_providers.rocmforge.wire_api="responses"',
      "model_context_window=65536",
    ]);
    expect(told?.env).not.toHaveProperty("ROCMFORGE_CLIENT_KEY");
  });

  test("opencode: a provider in its inline configuration", async () => {
    const { told } = await launch([...at("opencode"), "--name", "large"]);
    expect(JSON.parse(told?.env["OPENCODE_CONFIG_CONTENT"] ?? "")).toMatchObject({
      model: "rocmforge/large",
      provider: {
        rocmforge: {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: `${served.url}/v1`, apiKey: "none-needed" },
          models: { large: { limit: { context: 65_536, output: 16_384 } } },
        },
      },
    });
  });

  test("the key of a server that needs one, and none of its other keys", async () => {
    await using locked = await startServer({ apiKeys: ["key-of-alice", "key-of-bobby"] });
    const keys = { ROCMFORGE_API_KEYS: "key-of-bobby,key-of-alice" };
    const told = async (client: string) => (await launch([client, "--url", locked.url], keys)).told;
    expect((await told("claude"))?.env).toMatchObject({ ANTHROPIC_AUTH_TOKEN: "key-of-bobby" });
    const codex = await told("codex");
    expect(codex?.args).toContain('model_providers.rocmforge.env_key="ROCMFORGE_CLIENT_KEY"');
    expect(codex?.args.join(" ")).not.toContain("key-of");
    expect(codex?.env).toMatchObject({ ROCMFORGE_CLIENT_KEY: "key-of-bobby" });
    expect(codex?.env).not.toHaveProperty("ROCMFORGE_API_KEYS");
    const openCode = (await told("opencode"))?.env ?? {};
    expect(openCode["OPENCODE_CONFIG_CONTENT"]).toContain("{env:ROCMFORGE_CLIENT_KEY}");
    expect(openCode["ROCMFORGE_CLIENT_KEY"]).toBe("key-of-bobby");
    const { status, stderr } = await launch(["claude", "--url", locked.url]);
    expect([status, stderr]).toEqual([1, expect.stringContaining("it needs an API key")]);
  });

  test("a model with a short context is warned of", async () => {
    const { status, stderr, told } = await launch(at("claude"));
    expect([status, told?.env["ANTHROPIC_MODEL"]]).toEqual([0, "fake"]);
    expect(stderr).toMatch(/^rocmforge: the context length is 4,096 tokens; Claude Code may need 32,768 tokens/);
  });
});

describe("--print", () => {
  test("shows the settings for a shell, and starts nothing", async () => {
    const { status, stdout, told } = await launch([...at("claude"), "--name", "large", "--print", "--", "-p", "it's"], {
      PATH: "/nowhere",
    });
    expect([status, told]).toEqual([0, undefined]);
    expect(stdout).toContain(`export ANTHROPIC_BASE_URL=${served.url}\n`);
    expect(stdout).toContain("unset ANTHROPIC_API_KEY\n");
    expect(stdout.endsWith(String.raw`claude -p 'it'\''s'` + "\n")).toBe(true);
  });

  test("never shows a key", async () => {
    await using locked = await startServer({ apiKeys: ["key-of-alice"] });
    for (const client of ["claude", "codex", "opencode"]) {
      const { stdout } = await launch([client, "--url", locked.url, "--print"], { ROCMFORGE_API_KEYS: "key-of-alice" });
      expect(stdout).not.toContain("key-of");
      expect(stdout).toContain("=KEY\n");
    }
  });
});

describe("a client that is started", () => {
  test("gives its exit status, or that of the signal that ended it", async () => {
    expect((await launch(at("codex"), { DO: "exit 42" })).status).toBe(42);
    expect((await launch(at("codex"), { DO: "die SIGKILL" })).status).toBe(128 + 9);
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("gets %s", async (signal) => {
    const record = folder.file(`record-${signal}.json`);
    const child = begin(at("codex"), { RECORD: record, DO: "wait" });
    const ended = finished(child);
    child.stdout?.once("data", () => child.kill(signal));
    expect((await ended).status).toBe(7);
    expect(JSON.parse(readFileSync(record, "utf8"))).toMatchObject({ signals: [signal] });
  });

  test("is served by a server of its own with -m, which ends with it", { timeout: HANG_MS }, async () => {
    const { status, stderr, told } = await launch(["claude", "-m", `own=${SMALL_MODEL}`], { DO: "ask" });
    expect([status, told?.answer?.model, told?.answer?.usage.output_tokens]).toEqual([0, "own", 4]);
    expect(told?.env).toMatchObject({ ANTHROPIC_MODEL: "own" });
    // The file's own context length, which is less than agents need.
    expect(stderr).toMatch(/the context length is 512 tokens/);
    await expect(fetch(told?.env["ANTHROPIC_BASE_URL"] ?? "")).rejects.toThrow("fetch failed");
  });

  test("is served with a model of a hub, which is downloaded first", { timeout: HANG_MS }, async () => {
    await using hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes: MODEL_BYTES }]);
    using environment = new HubEnvironment(hub);
    const args = ["claude", "-m", `hf:${hub.repository}`];
    const { status, stderr, told } = await launch(args, { ...environment.variables(hub), DO: "ask" });
    expect([status, told?.answer?.model]).toEqual([0, "fable-Q4_K_M"]);
    expect(stderr).toMatch(/the context length is 512 tokens/);
  });
});

describe("rejects", () => {
  test("a client that is not installed, and says how to install it", async () => {
    const { status, stderr } = await launch(at("claude"), { PATH: "/nowhere" });
    expect([status, stderr]).toEqual([
      127,
      expect.stringMatching(/Claude Code is not installed.*npm install -g @anthropic-ai\/claude-code/),
    ]);
  });

  test.each([
    [[], 2, /expected a client \(claude, codex, opencode\), found nothing/],
    [["cluade"], 2, /found "cluade"; did you mean "claude"\?/],
    [["claude", "extra"], 2, /unexpected argument "extra"/],
    [["claude", "--url", "ftp://x"], 2, /--url: expected an address/],
    [
      ["claude", "--url", "http://127.0.0.1:1/v1"],
      1,
      /no server can be used at http:\/\/127\.0\.0\.1:1.*rocmforge serve/,
    ],
    [["claude", "--print", "-m", "x.gguf"], 2, /--print: expected a running server/],
    [["claude", "-m", "nowhere.gguf"], 1, /nowhere\.gguf/],
  ] as const)("%j", async (args, expected, line) => {
    const { status, stderr, told } = await launch(args);
    expect([status, stderr, told]).toEqual([expected, expect.stringMatching(line), undefined]);
  });

  test("a model that the server does not have, and an answer that is no list of models", async () => {
    const unknown = await launch([...at("claude"), "--name", "lage"]);
    expect([unknown.status, unknown.stderr]).toEqual([1, expect.stringMatching(/did you mean "large"\?/)]);
    const other = await startServer();
    other.pool.list = () => [];
    const empty = await launch(["claude", "--url", other.url]);
    expect([empty.status, empty.stderr]).toEqual([1, expect.stringContaining("it lists no models")]);
    await other[Symbol.asyncDispose]();
  });
});
