// `rocmforge generate`: streamed text, the same text for the same seed, and a clean end whatever ends it.

import { writeFileSync } from "node:fs";
import { Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { generate as command } from "../../src/cli/commands/generate.js";
import { Output } from "../../src/cli/output.js";
import type { GenerationTimings } from "../../src/index.js";
import { readPacked } from "../support/packed-json.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, fixture, rocmforge, SMALL_MODEL } from "./command-line.js";

const PROMPT = "Once upon a time there was a king who had three daughters.";
const generate = (...args: readonly string[]): Parameters<typeof rocmforge>[0] => [
  "generate",
  "-m",
  SMALL_MODEL,
  ...args,
];

interface GenerateJson {
  readonly reason: string;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  readonly seed: number;
  readonly timings: GenerationTimings;
  readonly prompt: string;
  readonly text: string;
  readonly tokens: readonly number[];
}

const parse = (stdout: string): GenerateJson => JSON.parse(stdout) as GenerateJson;

describe("text", () => {
  it("echoes the prompt, streams the continuation and sums up on stderr", async () => {
    const finished = await rocmforge(generate("-p", PROMPT, "-n", "6", "--seed", "7"));
    expect(finished.status).toBe(0);
    expect(finished.stdout.startsWith(PROMPT)).toBe(true);
    expect(finished.stdout.length).toBeGreaterThan(PROMPT.length + 1);
    expect(finished.stdout.endsWith("\n")).toBe(true);
    expect(complaints(finished)).toMatch(
      /^rocmforge: 6 tokens in .*tokens\/s\), prompt 18 tokens .*, reason length, seed 7\n$/,
    );
  });

  it("gives the same text for the same seed, another for another, and no prompt with --no-echo", async () => {
    const args = (seed: string): readonly string[] => generate("-p", PROMPT, "-n", "12", "--no-echo", "--seed", seed);
    const [first, again, other] = await Promise.all([rocmforge(args("7")), rocmforge(args("7")), rocmforge(args("8"))]);
    expect(first.stdout).toBe(again.stdout);
    expect(first.stdout).not.toBe(other.stdout);
    expect(first.stdout).not.toContain("Once upon a time");
  });

  it("takes the text of special tokens for these, or for text with --no-parse-special", async () => {
    const tokens = async (...more: readonly string[]): Promise<number> =>
      parse((await rocmforge(generate("-p", "a<|endoftext|>", "-n", "1", "--json", ...more))).stdout).promptTokens;
    const parsed = await tokens();
    expect(await tokens("--no-parse-special")).toBeGreaterThan(parsed + 2);
  });

  it.each([
    ["a file", "the prompt\n", (path: string) => ["-f", path], "the prompt"],
    ["a file written on Windows", "the prompt\r\n", (path: string) => ["-f", path], "the prompt"],
    ["stdin", "line one\nline two\n\n", () => ["-f", "-"], "line one\nline two\n"],
  ])("takes the prompt from %s, without its last line break", async (_what, text, option, prompt) => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("prompt.txt"), text);
    const { stdout } = await rocmforge(generate(...option(folder.file("prompt.txt")), "-n", "1", "--json"), {
      input: text,
    });
    expect(parse(stdout).prompt).toBe(prompt);
  });

  it("gives a terminal nothing to obey, and a pipe what was written", async () => {
    for (const [isTTY, shown] of [
      [true, String.raw`a\u{1b}[2J`],
      [false, "a\u001b[2J"],
    ] as const) {
      let written = "";
      const stream = new Writable({ write: (chunk: Buffer, _encoding, done) => ((written += String(chunk)), done()) });
      expect(
        await command.execute(generate("-p", "a\u001b[2J", "-n", "1", "--seed", "7").slice(1), {
          output: new Output(Object.assign(stream, { isTTY })),
          loadCommands: async () => [],
        }),
      ).toBe(0);
      expect(written.startsWith(shown)).toBe(true);
    }
  });

  it("takes a prompt that starts with a dash", async () => {
    const { status, stdout } = await rocmforge(generate("-p", "- one", "-n", "1"));
    expect({ status, start: stdout.slice(0, 5) }).toEqual({ status: 0, start: "- one" });
  });
});

describe("--json", () => {
  it("agrees with llama.cpp's greedy tokens", async () => {
    const golden = readPacked(pathToFileURL(fixture("golden/fable-3m-qwen2-Q4_K_M.json.br"))) as {
      readonly cases: {
        readonly king: { readonly text: string; readonly exact: { readonly greedy: readonly number[] } };
      };
    };
    const { text, exact } = golden.cases.king;
    const finished = await rocmforge(
      generate("-p", text, "-n", "16", "--temp", "0", "--ignore-eos", "--json", "--seed", "3"),
    );
    expect(complaints(finished)).toBe("");
    const result = parse(finished.stdout);
    expect(result).toMatchObject({ prompt: text, reason: "length", promptTokens: 18, generatedTokens: 16, seed: 3 });
    expect(result.tokens).toEqual(exact.greedy.slice(0, 16));
    expect(result.timings.tokensPerSecond).toBeGreaterThan(0);
  });

  it("ends before a stop string, whichever of several comes first", async () => {
    const whole = parse((await rocmforge(generate("-p", PROMPT, "-n", "12", "--temp", "0", "--json"))).stdout);
    const stop = whole.text.slice(5, 8);
    const { stdout } = await rocmforge(
      generate("-p", PROMPT, "-n", "12", "--temp", "0", "--json", "--stop", "\u0001 never", "--stop", stop),
    );
    expect(parse(stdout)).toMatchObject({ reason: "stop", text: whole.text.slice(0, whole.text.indexOf(stop)) });
  });

  it("bans a token with a bias of -inf, and takes negative values after an option", async () => {
    const args = generate(
      "-p",
      PROMPT,
      "-n",
      "2",
      "--temp",
      "0",
      "--json",
      "--repeat-last-n",
      "-1",
      "--presence-penalty",
      "-0.5",
    );
    const [first] = parse((await rocmforge(args)).stdout).tokens;
    const banned = parse((await rocmforge([...args, "--logit-bias", `${first}=-inf`])).stdout);
    expect(banned.tokens).not.toContain(first);
  });
});

describe("what cannot be", () => {
  it("rejects a prompt longer than the context, with the numbers", async () => {
    const finished = await rocmforge(generate("-p", PROMPT, "--ctx", "10"));
    expect(finished).toMatchObject({ status: 1, stdout: "" });
    expect(complaints(finished)).toMatch(/^rocmforge: .*18 tokens.* 10.*\n$/);
  });

  it("ends at the context's end", async () => {
    const { stdout } = await rocmforge(generate("-p", PROMPT, "--ctx", "20", "-n", "50", "--ignore-eos", "--json"));
    expect(parse(stdout)).toMatchObject({ reason: "length", generatedTokens: 2 });
  });

  it("rejects a context that memory cannot hold", async () => {
    const finished = await rocmforge(generate("-p", PROMPT, "--ctx", "16777216"));
    expect(finished).toMatchObject({ status: 1, stdout: "" });
    expect(complaints(finished)).toMatch(/^rocmforge: .*16777216 tokens/);
  });

  it.each([
    ["a missing prompt file", "nothing-here.txt", /\[text\] nothing-here\.txt/],
    ["a folder as prompt file", ".", /.*a directory/],
  ])("rejects %s", async (_what, path, line) => {
    const finished = await rocmforge(generate("-f", path));
    expect(finished).toMatchObject({ status: 1, stdout: "" });
    expect(finished.stderr).toMatch(line);
  });

  it("rejects a token id outside the vocabulary", async () => {
    const finished = await rocmforge(generate("-p", PROMPT, "-n", "1", "--logit-bias", "99999=1"));
    expect(finished.status).toBe(2);
    expect(complaints(finished)).toMatch(/.*99999/);
  });
});

describe.skipIf(process.platform === "win32")("interruptions (skipped on Windows, which has no signals)", () => {
  const longStory = generate("-p", PROMPT, "--ignore-eos", "--seed", "7");

  it.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s ends the text cleanly", async (signal, status) => {
    const finished = await rocmforge(longStory, { onFirstOutput: signal });
    expect(finished.status).toBe(status);
    expect(finished.stdout.endsWith("\n")).toBe(true);
    expect(complaints(finished)).toMatch(/^rocmforge: \d+ tokens? in .*reason abort, seed 7\n$/);
  });

  it("a reader that goes away ends it quietly", async () => {
    const finished = await rocmforge(longStory, { onFirstOutput: "stop reading" });
    expect({ status: finished.status, stderr: complaints(finished) }).toEqual({ status: 0, stderr: "" });
  });
});
