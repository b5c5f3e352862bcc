// Every line of the README that calls the command line works with the embedded model. Long ones and those of docs/ run in
// readme.full.test.ts, requests of curl in test/server/serving/readme.test.ts, programs in test/project.

import { describe, expect, it } from "vitest";
import {
  commandsOf,
  DOCUMENT_BLOCKS,
  GUIDE_PAGES,
  SHELL_COMMANDS,
  withoutComment,
} from "../support/document-blocks.js";
import { expectBlock, expectSample, expectServer } from "./readme-expectations.js";
import {
  cannotRun,
  HUB_BLOCKS,
  isElsewhere,
  isLong,
  README_SAMPLES,
  SAMPLES,
  SERVER_SAMPLES,
} from "./readme-samples.js";

/** Languages of blocks that tests run, and of those that show what no test can run. */
const LANGUAGES = ["ts", "js", "sh", "json", "nginx"];

const quick = README_SAMPLES.filter((line) => !isElsewhere(line) && !isLong(line));

it("has samples of every command", () => {
  const commands = new Set(README_SAMPLES.map((line) => /rocmforge (?<command>\w+)/.exec(line)?.groups?.["command"]));
  expect([...commands].sort()).toEqual([
    "bench",
    "chat",
    "completion",
    "devices",
    "doctor",
    "generate",
    "inspect",
    "launch",
    "list",
    "perplexity",
    "plan",
    "pull",
    "rm",
    "run",
    "serve",
    "synth",
    "tokenize",
    "tune",
    "verify",
  ]);
  expect(quick.some((line) => line.includes("| rocmforge chat"))).toBe(true);
});

describe.skipIf(process.platform === "win32")(
  "samples of the README (skipped on Windows, which has no such shell)",
  () => {
    it.each(quick)("%s", expectSample);

    it.each(SERVER_SAMPLES.filter((line) => README_SAMPLES.includes(line)))("%s", expectServer);

    it.each(HUB_BLOCKS.filter(({ page }) => page === "README.md"))("$page:$line, with a hub on localhost", expectBlock);
  },
);

describe("blocks of the README and of docs/", () => {
  it("are in pages that tests look at", () => {
    expect(GUIDE_PAGES).toContain("docs/guide/library.md");
    expect(HUB_BLOCKS.map(({ page }) => page)).toContain("README.md");
    expect(SERVER_SAMPLES.length).toBeGreaterThan(1);
  });

  it("have a language, and JSON can be parsed", () => {
    expect(DOCUMENT_BLOCKS.filter(({ language }) => !LANGUAGES.includes(language))).toEqual([]);
    for (const { language, text } of DOCUMENT_BLOCKS) if (language === "json") JSON.parse(text);
  });

  it("have no command that no test runs, unless a comment says why", () => {
    const known = new Set(SAMPLES);
    const others = SHELL_COMMANDS.filter(
      ({ command }) => !known.has(withoutComment(command)) && !command.startsWith("curl "),
    );
    expect(others).toEqual([]);
  });

  it("say in a comment which commands cannot run, and no others do", () => {
    const shell = DOCUMENT_BLOCKS.filter(({ language, notRun }) => language === "sh" && notRun === undefined);
    const wrong = shell.filter(
      (block) => commandsOf(block).some(cannotRun) !== (block.partlyRun !== undefined && block.partlyRun.length > 10),
    );
    expect(wrong.map(({ page, line }) => `${page}:${line}`)).toEqual([]);
  });

  it("are seldom not run", () => {
    const reasons = DOCUMENT_BLOCKS.flatMap(({ page, notRun }) => (notRun === undefined ? [] : [`${page}: ${notRun}`]));
    expect(reasons.length).toBeLessThan(12);
  });
});
