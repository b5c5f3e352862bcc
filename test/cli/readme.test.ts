// Every line of the README that calls the command line works with the embedded model; long ones run in readme.full.test.ts.

import { describe, expect, it } from "vitest";
import { isElsewhere, isLong, ReadmeFolder, SAMPLES } from "./readme-samples.js";

const quick = SAMPLES.filter((line) => !isElsewhere(line) && !isLong(line));

it("has samples of every command", () => {
  const commands = new Set(SAMPLES.map((line) => /rocmforge (?<command>\w+)/.exec(line)?.groups?.["command"]));
  expect([...commands].sort()).toEqual([
    "bench",
    "chat",
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
    "serve",
    "synth",
    "tokenize",
  ]);
  expect(quick.some((line) => line.includes("| rocmforge chat"))).toBe(true);
});

describe.skipIf(process.platform === "win32")(
  "samples of the README (skipped on Windows, which has no such shell)",
  () => {
    it.each(quick)("%s", (line) => {
      using folder = new ReadmeFolder();
      const { status, stdout, stderr } = folder.run(line);
      // If the addon cannot be built, doctor's status says so.
      if (/^rocmforge doctor\b/.test(line)) expect([0, 1]).toContain(status);
      else expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
      // A chat without messages prints nothing.
      if (!line.startsWith("rocmforge chat ")) expect(stdout).toMatch(/\S/);
    });
  },
);
