// `rocmforge chat` over a pipe: each line is a message, stdout has the answers, and the conversation keeps its history.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, type Finished, rocmforge, type RunOptions } from "./command-line.js";

/** The embedded model, which was not trained to chat, but writes something anyway. */
function chat(lines: readonly string[], args: readonly string[] = [], options: RunOptions = {}): Promise<Finished> {
  return rocmforge(["chat", "-n", "12", "--temp", "0", "--seed", "7", ...args], {
    input: lines.map((line) => `${line}\n`).join(""),
    ...options,
  });
}

/** Being cut off by -n is not an error. */
const problems = (finished: Finished): string =>
  complaints(finished).replace(/^rocmforge: the answer was cut off after 12 tokens.*\n/gm, "");

describe("a conversation over a pipe", () => {
  it("answers each line, remembers, and computes only what is new", async () => {
    const finished = await chat([
      "Once upon a time there was a king who had three daughters.",
      "What were their names, and where did they live?",
      "/stats",
    ]);
    expect({ status: finished.status, problems: problems(finished) }).toEqual({ status: 0, problems: "" });
    expect(finished.stdout).not.toMatch(/^> /m);
    expect(finished.stdout).not.toContain("\u001b");
    const stats =
      /prompt (?<prompt>\d+) tokens, (?<cached>\d+) of them from the cache, reason (?:length|stop), seed 7\nconversation: 2 turns, (?<used>\d+) of 512 tokens/.exec(
        finished.stdout,
      )?.groups;
    expect(Number(stats?.["prompt"])).toBeGreaterThan(40);
    expect(Number(stats?.["cached"])).toBeGreaterThanOrEqual(16);
    expect(Number(stats?.["used"])).toBeGreaterThan(Number(stats?.["prompt"]));
  });

  it("is the same each time, one message after the other or as a block", async () => {
    const [first, again, block] = await Promise.all([
      chat(["one", "two"]),
      chat(["one", "two"]),
      chat(['"""', "one", "two", '"""']),
    ]);
    expect(first.stdout).toBe(again.stdout);
    expect(block.stdout).not.toBe(first.stdout);
    expect([first.status, block.status]).toEqual([0, 0]);
  });

  it("is saved in one process and gone on with in another", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("chat.json");
    const whole = await chat(["one", "two"], ["--system", "You tell fables."]);
    await chat(["one", `/save ${path}`], ["--system", "You tell fables."]);
    const rest = await chat([`/load ${path}`, "two"]);
    expect(problems(rest)).toBe(`rocmforge: 1 turn loaded from ${path}\n`);
    expect(rest.stdout).not.toBe("");
    expect(whole.stdout.endsWith(rest.stdout)).toBe(true);
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({
      model: "fable-10m-Q4_K_M",
      messages: [{ role: "system" }, { role: "user", content: "one" }, { role: "assistant" }],
    });
  });

  it("drops the oldest turns with --trim, and says so", async () => {
    const lines = Array.from({ length: 8 }, (_, index) => `Tell me story number ${index}, please.`);
    const finished = await chat(lines, ["--trim", "--ctx", "96"]);
    expect(finished.status).toBe(0);
    expect(finished.stderr).toMatch(/dropped the oldest \d turns?/);
    expect(finished.stderr).not.toContain("expected fewer than");
  });
});

describe("what ends it", () => {
  it("the first failure, with its status", async () => {
    const finished = await chat(["/load none.json", "one"]);
    expect(finished).toMatchObject({ status: 1, stdout: "" });
    expect(complaints(finished)).toMatch(/^rocmforge: \[chat\] none\.json: no such file.*\n$/);
  });

  it("a full context without --trim, with the numbers", async () => {
    const finished = await chat(
      Array.from({ length: 12 }, () => "Tell me a story, please."),
      ["--ctx", "96"],
    );
    expect(finished.status).toBe(1);
    expect(finished.stderr).toMatch(/\[chat\] expected fewer than 96 tokens, the context length, found \d+; --trim/);
  });

  it("an impossible sampling option, before any model is opened", async () => {
    const finished = await chat([], ["-m", "no-such-model.gguf", "--mirostat", "1"]);
    expect(finished).toMatchObject({ status: 2, stdout: "" });
  });

  it("nothing to say", async () => {
    expect(await chat([])).toMatchObject({ status: 0, stdout: "" });
  });

  it.skipIf(process.platform === "win32").each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s, in the middle of an answer (skipped on Windows, which has no signals)", async (signal, status) => {
    const finished = await chat(["one", "two"], ["--backend", "reference", "-n", "400"], { onFirstOutput: signal });
    expect(finished.status).toBe(status);
    expect(finished.stdout.endsWith("\n")).toBe(true);
  });

  it("a reader that goes away", async () => {
    const finished = await chat(["one", "two"], ["--backend", "reference", "-n", "400"], {
      onFirstOutput: "stop reading",
    });
    expect(finished).toMatchObject({ status: 0 });
  });
});
