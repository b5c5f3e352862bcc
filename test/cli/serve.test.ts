// `rocmforge serve`: prints its address, answers, and shuts down cleanly.

import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, rocmforge, SMALL_MODEL } from "./command-line.js";
import { Served } from "./served.js";

const HELLO = { messages: [{ role: "user", content: "Hello!" }], temperature: 0, max_tokens: 8 };
const run = promisify(execFile);
/** Larger than the small one: its first step on the reference backend is not over before a signal arrives. */
const EMBEDDED_MODEL = fileURLToPath(new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url));

interface Listing {
  readonly data: readonly { readonly id: string; readonly state: string }[];
}

interface ChatAnswer {
  readonly choices: readonly { readonly message: { readonly content: string }; readonly finish_reason: string }[];
  readonly usage: { readonly completion_tokens: number };
}

async function states(served: Served): Promise<Readonly<Record<string, string>>> {
  const { data } = (await (await fetch(`${served.url}/v1/models`)).json()) as Listing;
  return Object.fromEntries(data.map(({ id, state }) => [id, state]));
}

describe("serving", () => {
  it("greets, answers, loads a second model on demand, and exits with 0 on SIGTERM", async () => {
    await using served = await Served.start(["-m", `tiny=${SMALL_MODEL}`, "-m", SMALL_MODEL]);
    expect(served.stdout).toMatch(
      /^rocmforge is listening on http:\/\/127\.0\.0\.1:\d+\n {2}tiny +loaded, context 512 tokens +\/.*\n {2}fable-3m-qwen2-Q4_K_M +loaded on first request/,
    );
    expect(await (await fetch(`${served.url}/health`)).json()).toEqual({ status: "ok" });
    expect(await states(served)).toEqual({ tiny: "loaded", "fable-3m-qwen2-Q4_K_M": "unloaded" });
    const answers = (await Promise.all(
      ["tiny", "fable-3m-qwen2-Q4_K_M"].map(async (model) =>
        (await served.post("/v1/chat/completions", { ...HELLO, model })).json(),
      ),
    )) as readonly ChatAnswer[];
    expect(answers[0].usage.completion_tokens).toBeGreaterThan(0);
    expect(answers[1].choices[0].message).toEqual(answers[0].choices[0].message);
    expect(await states(served)).toEqual({ tiny: "loaded", "fable-3m-qwen2-Q4_K_M": "loaded" });
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
    expect(served.stderr).toContain("rocmforge: stopping;");
  });

  it("also listens for clients of Ollama, and rejects a port that is taken for them", async () => {
    await using served = await Served.start(["-m", `tiny=${SMALL_MODEL}`, "--ollama-port", "0"]);
    const address = /^and on (?<url>http:\/\/127\.0\.0\.1:\d+) for clients of Ollama$/m.exec(served.stdout)?.groups?.[
      "url"
    ];
    const { models } = (await (await fetch(`${address}/api/tags`)).json()) as { readonly models: readonly object[] };
    expect(models).toMatchObject([{ name: "tiny:latest" }]);
    const port = new URL(address ?? "").port;
    const finished = await rocmforge(["serve", "-m", SMALL_MODEL, "--port", "0", "--ollama-port", port]);
    expect(finished).toMatchObject({ status: 2, stdout: "" });
    expect(complaints(finished)).toContain(`[serve] --ollama-port: expected one that is free, found ${port}, which`);
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
  });

  it("logs each request in a line of text if that is asked for", async () => {
    await using served = await Served.start(["-m", SMALL_MODEL, "--log-format", "pretty"]);
    await fetch(`${served.url}/health`);
    await served.until(() => /^\d\d:\d\d:\d\d info {2}GET \/health 200 in \d+ ms reqId=req_/m.test(served.stderr));
    expect(served.stderr).not.toMatch(/^\{/m);
  });

  it("rejects an environment whose keys did not arrive", async () => {
    const served = await Served.start(["-m", SMALL_MODEL], { ROCMFORGE_API_KEYS: "" }).catch((error: unknown) => error);
    expect(String(served)).toMatch(/ended with 2 before that:[^]*\[serve\] ROCMFORGE_API_KEYS: expected keys/);
  });

  it("prints an example that runs as it is", async () => {
    await using served = await Served.start(["--log-level", "silent"]);
    const command = /^ {2}(?<curl>curl [^]*?)\n\n/m.exec(served.stdout)?.groups?.["curl"] ?? "";
    const { stdout } = await run("/bin/sh", ["-c", command.replace("curl ", "curl --silent --fail ")]);
    expect((JSON.parse(stdout) as ChatAnswer).choices[0].message).toMatchObject({ role: "assistant" });
    served.kill("SIGINT");
    expect(await served.status).toBe(0);
    expect(served.stderr).toMatch(/^(?:rocmforge: (?:loading|computing|stopping).*\n)*$/);
  });

  it("requires API keys if it has some, and warns if it has none and is reachable from the network", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("keys"), "from-the-file\n");
    await using guarded = await Served.start(
      ["-m", SMALL_MODEL, "--host", "0.0.0.0", "--api-key-file", folder.file("keys")],
      { ROCMFORGE_API_KEYS: "from-the-environment" },
    );
    expect(guarded.stderr).not.toContain("may use it");
    const statuses = await Promise.all(
      ["from-the-file", "from-the-environment", "guessed"].map(
        async (key) => (await guarded.post("/v1/chat/completions", HELLO, { authorization: `Bearer ${key}` })).status,
      ),
    );
    expect(statuses).toEqual([200, 200, 401]);
    await using open = await Served.start(["-m", SMALL_MODEL, "--host", "0.0.0.0"]);
    expect(open.stderr).toMatch(
      /^rocmforge: everyone who can reach http:\/\/0\.0\.0\.0:\d+ may use it; --api-key-file/m,
    );
  });

  it("passes its options to the server", async () => {
    const limits = [
      "--no-warm-up",
      "--strict",
      "--max-body",
      "2000",
      "--max-prompt-tokens",
      "40",
      "--cors",
      "https://example.com",
      "--ctx",
      "256",
      "--max-stored",
      "0",
    ];
    await using served = await Served.start(["-m", SMALL_MODEL, ...limits]);
    const status = async (body: unknown): Promise<number> => (await served.post("/v1/chat/completions", body)).status;
    expect(await status(HELLO)).toBe(200);
    expect(await status({ ...HELLO, temprature: 1 })).toBe(400);
    expect(await status({ ...HELLO, model: "other" })).toBe(404);
    const { id } = (await (await served.post("/v1/responses", { input: "Hi", max_output_tokens: 1 })).json()) as {
      readonly id: string;
    };
    expect((await fetch(`${served.url}/v1/responses/${id}`)).status).toBe(404);
    expect(await status({ ...HELLO, messages: [{ role: "user", content: "x".repeat(3000) }] })).toBe(413);
    expect(await status({ ...HELLO, messages: [{ role: "user", content: "one two three ".repeat(30) }] })).toBe(400);
    const { headers } = await fetch(`${served.url}/health`, { headers: { origin: "https://example.com" } });
    expect(headers.get("access-control-allow-origin")).toBe("https://example.com");
    expect(served.stdout).toContain("context 256 tokens");
  });

  it("unloads an idle model and loads it again, with its grammars", async () => {
    await using served = await Served.start(["-m", `tiny=${SMALL_MODEL}`, "--idle-minutes", "0.001"]);
    const colour = {
      ...HELLO,
      max_tokens: 100,
      response_format: { type: "json_schema", json_schema: { name: "colour", schema: { enum: ["red", "green"] } } },
    };
    for (let load = 0; load < 2; load++) {
      while ((await states(served))["tiny"] !== "unloaded") await new Promise((resolve) => setTimeout(resolve, 20));
      const answer = (await (await served.post("/v1/chat/completions", colour)).json()) as ChatAnswer;
      expect(["red", "green"]).toContain(JSON.parse(answer.choices[0].message.content));
    }
  });
});

describe("an end in order", () => {
  /** Slow enough to be interrupted in the middle, on any machine. */
  const SLOW = ["-m", SMALL_MODEL, "--backend", "reference"];
  const story = { ...HELLO, stream: true, max_tokens: 150 };

  it("lets a stream finish, refuses what is new, and takes an echo of the signal for no second one", async () => {
    await using served = await Served.start(SLOW);
    const response = await served.post("/v1/chat/completions", story);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = Buffer.from((await reader.read()).value ?? []).toString();
    served.kill("SIGTERM");
    served.kill("SIGINT");
    await served.until(() => served.stderr.includes("stopping"));
    const refused = await served.post("/v1/chat/completions", HELLO).then(
      ({ status }) => status,
      () => "no connection",
    );
    expect([503, "no connection"]).toContain(refused);
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString();
    expect(text).toMatch(/"finish_reason":"(?:stop|length)"[^]*data: \[DONE\]\n\n$/);
    expect(await served.status).toBe(0);
  });

  it("ends while its model is loaded", async () => {
    await using served = await Served.begin(["-m", EMBEDDED_MODEL, "--backend", "reference"]);
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
    expect([served.stdout, served.stderr]).toEqual([
      "",
      expect.stringMatching(/^rocmforge: stopped before the model was loaded$/m),
    ]);
  });

  it("waits no longer than its drain time", async () => {
    await using served = await Served.start([...SLOW, "--drain-seconds", "0"]);
    const response = await served.post("/v1/chat/completions", story);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
    await reader.cancel().catch(() => {});
  });

  it("ends at once with the second signal", async () => {
    await using served = await Served.start(SLOW);
    const response = await served.post("/v1/chat/completions", { ...story, n: 8, max_tokens: 450 });
    await (response.body as ReadableStream<Uint8Array>).getReader().read();
    served.kill("SIGTERM");
    await served.until(() => served.stderr.includes("stopping"));
    await new Promise((resolve) => setTimeout(resolve, 400));
    served.kill("SIGTERM");
    expect(await served.status).toBe(143);
  });
});

describe("what cannot be", () => {
  it("rejects a port that is taken, by name", async () => {
    await using served = await Served.start(["-m", SMALL_MODEL]);
    const finished = await rocmforge(["serve", "-m", SMALL_MODEL, "--port", new URL(served.url).port]);
    expect(finished).toMatchObject({ status: 2, stdout: "" });
    expect(complaints(finished)).toMatch(
      /^rocmforge: \[serve\] --port: expected one that is free, found \d+, which another program listens on\n$/,
    );
  });

  it.each<[what: string, args: readonly string[], status: number, line: RegExp]>([
    ["a model that is not there", ["-m", "no-such-model.gguf"], 1, /.*no-such-model\.gguf/],
    [
      "two models of one name",
      ["-m", "a/x.gguf", "-m", "b/x.gguf"],
      2,
      /\[serve\] --model: expected another name for each model/,
    ],
    ["a level that there is not", ["-m", SMALL_MODEL, "--log-level", "loud"], 2, /\[serve\] --log-level: .*found loud/],
    [
      "an address of another machine",
      ["-m", SMALL_MODEL, "--host", "192.0.2.1"],
      2,
      /\[serve\] --host: expected an address of this machine/,
    ],
    [
      "a key that is too short",
      ["-m", SMALL_MODEL, "--api-key-file", "-"],
      2,
      /\[serve\] --api-key-file: .*found a key that is not one/,
    ],
    ["a page that is none", ["-m", SMALL_MODEL, "--cors", "example.com"], 2, /\[serve\] --cors/],
    ["an end of all room for requests", ["-m", SMALL_MODEL, "--max-receiving", "0"], 2, /\[serve\] --max-receiving/],
    ["a port that there is not", ["-m", SMALL_MODEL, "--port", "65536"], 2, /\[serve\] --port/],
  ])("rejects %s", async (_what, args, status, line) => {
    const finished = await rocmforge(["serve", ...args], { input: "short\n" });
    expect(finished).toMatchObject({ status, stdout: "" });
    expect(complaints(finished)).toMatch(line);
  });
});
