// `rocmforge pull`, `list` and `rm`, and -m with the name of a model, against a hub on localhost.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HubEnvironment, MODEL_BYTES, paddedModel } from "../hub/hub-environment.js";
import { sha256, TestHub } from "../hub/test-hub.js";
import { COMMAND_LINE, complaints, rocmforge } from "./command-line.js";
import { Served } from "./served.js";

let hub: TestHub;
let environment: HubEnvironment;
let name: string;

beforeEach(async () => {
  hub = await TestHub.start([
    { path: "fable-Q4_K_M.gguf", bytes: MODEL_BYTES },
    { path: "fable-Q8_0.gguf", bytes: paddedModel(3_000_000) },
  ]);
  environment = new HubEnvironment(hub);
  name = `hf:${hub.repository}`;
});

afterEach(async () => {
  environment[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

describe("pull", () => {
  it("says what a model is before it downloads it, and where it is afterwards", async () => {
    const { status, stdout, stderr } = await rocmforge(["pull", name, "--backend", "reference"]);
    expect(status).toBe(0);
    expect(stderr).toMatch(/^rocmforge: hf:tester\/fable-GGUF\/fable-Q4_K_M\.gguf: qwen2, Q4_K, Q6_K.*, 1\.\d+ MB$/m);
    expect(stderr).toMatch(/^rocmforge: fits on reference: \S+ MB needed \(weights .*\), .* free$/m);
    expect(sha256(readFileSync(stdout.trim()))).toBe(sha256(MODEL_BYTES));
    const listed = await rocmforge(["list"]);
    expect(listed.stdout).toMatch(/^hf:tester\/fable-GGUF:Q4_K_M\s+1\.\d+ MB {2}\d{4}-\d\d-\d\d$/m);
    const generated = await rocmforge(["generate", "-m", name, "--offline", "-p", "Once", "-n", "3", "--temp", "0"]);
    expect(generated).toMatchObject({ status: 0 });
    const removed = await rocmforge(["rm", `${name}:Q4_K_M`]);
    expect(removed).toMatchObject({ status: 0, stdout: expect.stringContaining("freed") as string });
    expect((await rocmforge(["list", "--json"])).stdout.trim()).toBe("[]");
  });

  it("downloads several at once", async () => {
    const { status, stdout } = await rocmforge(["pull", `${name}:Q4_K_M`, `${name}:Q8_0`, "--json"]);
    expect(status).toBe(0);
    expect(stdout).toContain("fable-Q4_K_M.gguf");
    expect(stdout).toContain("fable-Q8_0.gguf");
  });

  it("downloads the others if some fail, and says why each did", async () => {
    const missing = ["x", "y", "z"].map((repository) => `hf:tester/${repository}`);
    const { status, stdout, stderr } = await rocmforge(["pull", ...missing, name]);
    expect(status).toBe(1);
    expect(stdout).toContain("fable-Q4_K_M.gguf");
    for (const each of missing) expect(stderr.match(new RegExp(`\\[hub\\] ${each}: .*404`, "g"))).toHaveLength(1);
  });

  it("says why a model does not run here before it downloads it nevertheless", async () => {
    const foreign = Buffer.from(MODEL_BYTES);
    foreign.write("qwenX", MODEL_BYTES.indexOf("qwen2"), "latin1");
    hub.files = [{ path: "other.gguf", bytes: foreign }];
    const refused = await rocmforge(["pull", name]);
    expect(refused).toMatchObject({ status: 1, stdout: "" });
    expect(refused.stderr).not.toContain("does not run here");
    const forced = await rocmforge(["pull", name, "--force"]);
    expect(forced).toMatchObject({ status: 0, stdout: expect.stringContaining("other.gguf") as string });
    expect(forced.stderr).toMatch(/^rocmforge: does not run here: .*qwenX/m);
  });

  it("rejects a model that does not fit, with what would", async () => {
    const refused = await rocmforge(["pull", name, "--ctx", String(2 ** 24), "--backend", "reference"]);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/does not fit on reference/);
    expect(refused.stderr).toMatch(/a context of \d+ tokens would fit \(--ctx \d+\).*--force tries it anyway/);
    expect(hub.sentBytes).toBeLessThan(1_000_000);
  });

  it.each([
    [[], 2, /expected a model such as hf:user\/repo/],
    [["model.gguf"], 2, /expected a model's name/],
    [["hf:user"], 1, /expected hf:user\/repo/],
    [["hf:tester/other"], 1, /has no such/],
    [["hf:tester/fable-GGUF:Q2_K"], 1, /expected a model of the quantisation Q2_K, found fable-Q4_K_M\.gguf/],
    [["hf:tester/fable-GGUF", "--offline"], 1, /not in the cache.*--offline/],
  ])("rejects %j", async (args, status, reason) => {
    const refused = await rocmforge(["pull", ...args]);
    expect(refused.status).toBe(status);
    expect(complaints(refused)).toMatch(reason);
    expect(refused.stderr).not.toContain("bug in rocmforge");
  });

  it("keeps what has arrived after Ctrl-C, and resumes", async () => {
    hub.sliceMs = 20;
    const child = spawn(process.execPath, [COMMAND_LINE, "pull", `${name}:Q8_0`, "--backend", "reference"]);
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    while (hub.sentBytes < 1_500_000) await new Promise((resolve) => setTimeout(resolve, 5));
    child.kill("SIGINT");
    const [status] = (await once(child, "close")) as [number];
    expect(status).toBe(130);
    expect(stderr).toContain("the same command resumes the download");
    hub.sliceMs = 0;
    const sent = hub.sentBytes;
    expect((await rocmforge(["list"])).stdout).toMatch(/unfinished/);
    const { status: second, stdout } = await rocmforge(["pull", `${name}:Q8_0`, "--backend", "reference"]);
    expect(second).toBe(0);
    expect(sha256(readFileSync(stdout.trim()))).toBe(sha256(hub.files[1].bytes));
    expect(hub.sentBytes - sent).toBeLessThan(2_000_000);
  });
});

it("inspects, tokenizes and plans a model that is given by name", async () => {
  expect(await rocmforge(["inspect", name])).toMatchObject({ status: 0 });
  expect(await rocmforge(["tokenize", "-m", name, "-p", "Once"])).toMatchObject({ status: 0 });
  expect(await rocmforge(["plan", "-m", name, "--ctx", "64"])).toMatchObject({ status: 0 });
  expect(hub.sentBytes).toBe(MODEL_BYTES.length);
});

it("serves a model that is given by name, under its own or another", async () => {
  await using served = await Served.start(["-m", name, "-m", `other=${name}:Q8_0`, "--backend", "reference"]);
  const { data } = (await (await fetch(`${served.url}/v1/models`)).json()) as { data: readonly { id: string }[] };
  expect(data.map(({ id }) => id)).toEqual(["fable-Q4_K_M", "other"]);
});
