// Claude Code and Codex as their packages have them, with nothing but this server in reach: a question, a call of one of
// their tools, its result, and an answer. What they sent is written down, shortened, in test/server/coding-agents.test.ts.

import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMAND_LINE } from "../../cli/command-line.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import {
  type Exchange,
  MODEL_NAME,
  packageFile,
  type Rule,
  runSession,
  type Session,
  unavailableReason,
  writeModel,
} from "./session.js";

const QUESTION = "What does note.txt say?";
const ANSWER = "The file says: seventeen foxes.";
/** A prompt of twenty thousand tokens on a machine that is busy. */
const TIMEOUT_MS = 15 * 60_000;
/** What the files of a session of several turns say. */
const FOUND = ["nineteen owls", "twenty herons", "thirty millers"];
const SPARE_TOKENS = 64;
/** The line with a hash that differs in every request; the session's own line stayed the same with this version. */
const CHANGING_LINE = "x-anthropic-billing-header: cc_version=2.1.325.3ab; cc_entrypoint=cli; cch=00a{n}f;";

function call(name: string, given: object): string {
  return `<think>\nI must look.\n</think>\n\nLet me look.\n<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`;
}

/** The billing line of a request of Claude Code. */
function firstBlockOf({ body }: Exchange): string {
  return (body.system as readonly { readonly text: string }[])[0]?.text ?? "";
}

/** How Claude Code is started with a question. */
function claudeCode(question: string): Pick<Session, "command" | "args" | "env"> {
  return {
    command: process.execPath,
    args: [packageFile("@anthropic-ai", "claude-code", "cli-wrapper.cjs"), "-p", question, "--output-format", "json"],
    env: {
      ANTHROPIC_BASE_URL: "{url}",
      ANTHROPIC_API_KEY: "none-needed",
      ANTHROPIC_MODEL: "local-model",
      DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    },
  };
}

function rules(firstAnswer: string): readonly Rule[] {
  return [
    {
      when: "<tool_response>.*seventeen foxes.*</tool_response>",
      answer: `<think>\nI have read it.\n</think>\n\n${ANSWER}`,
    },
    { when: QUESTION.replaceAll(/[.?]/g, String.raw`\$&`), answer: firstAnswer },
  ];
}

describe.skipIf(unavailableReason !== undefined)(
  `coding agents${unavailableReason === undefined ? "" : ` (skipped: ${unavailableReason})`}`,
  () => {
    let folder: TemporaryFolder;
    let modelPath: string;
    let cwd: string;
    beforeAll(async () => {
      folder = new TemporaryFolder();
      modelPath = await writeModel(folder);
      cwd = folder.file("project");
      mkdirSync(cwd);
      writeFileSync(join(cwd, "note.txt"), "seventeen foxes\n");
    });
    afterAll(() => folder[Symbol.dispose]());

    test("Claude Code reads a file and answers", async () => {
      const { exitCode, stdout, stderr, exchanges, completions } = await runSession(folder, modelPath, {
        rules: rules(call("Read", { file_path: join(cwd, "note.txt") })),
        ...claudeCode(QUESTION),
        cwd,
        timeoutMs: TIMEOUT_MS,
      });
      expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
      const told = JSON.parse(stdout) as {
        readonly is_error: boolean;
        readonly result: string;
        readonly num_turns: number;
        readonly usage: { readonly cache_read_input_tokens: number };
      };
      expect(told).toMatchObject({ is_error: false, result: ANSWER, num_turns: 2 });
      expect(exchanges.map(({ status }) => status)).toEqual(exchanges.map(() => 200));
      expect(completions).toHaveLength(2);
      // The second prompt begins like the first, which is in the cache.
      expect(told.usage.cache_read_input_tokens).toBeGreaterThan((completions[0]?.promptTokens ?? Infinity) * 0.9);
      const last = exchanges.findLast(({ url }) => url.startsWith("/v1/messages"));
      expect(last?.body.messages.at(-1).content).toMatchObject([
        { type: "tool_result", content: expect.stringContaining("seventeen foxes") },
      ]);
    });

    test("Claude Code's turns read what came before from the cache, although their billing lines differ", async () => {
      const files = ["one.txt", "two.txt", "three.txt"].map((name) => join(cwd, name));
      for (const [index, path] of files.entries()) writeFileSync(path, `${FOUND[index]}\n`);
      const { exitCode, stdout, exchanges, completions } = await runSession(folder, modelPath, {
        ...claudeCode("Read the three files."),
        rules: [
          { when: `${FOUND[2]}.*</tool_response>`, answer: ANSWER },
          { when: `${FOUND[1]}.*</tool_response>`, answer: call("Read", { file_path: files[2] }) },
          { when: `${FOUND[0]}.*</tool_response>`, answer: call("Read", { file_path: files[1] }) },
          { when: "Read the three files", answer: call("Read", { file_path: files[0] }) },
        ],
        firstBlock: CHANGING_LINE,
        cwd,
        timeoutMs: TIMEOUT_MS,
      });
      expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { is_error: false, result: ANSWER, num_turns: 4 }]);
      const turns = exchanges.filter(({ url }) => url.startsWith("/v1/messages?"));
      expect(new Set(turns.map(firstBlockOf)).size).toBe(4);
      expect([turns.length, completions.length]).toEqual([4, 4]);
      for (const [index, { promptTokens }] of completions.slice(0, -1).entries()) {
        // All of the prompt before it, except what does not fill a block or is rendered otherwise.
        expect(completions[index + 1]?.cachedTokens).toBeGreaterThan(promptTokens - SPARE_TOKENS);
      }
    });

    test("Codex runs a command and answers", async () => {
      const home = folder.file("codex");
      mkdirSync(home);
      const provider = [
        `model = "${MODEL_NAME}"`,
        `model_provider = "local"`,
        "[model_providers.local]",
        `name = "local"`,
        `wire_api = "responses"`,
      ];
      writeFileSync(join(home, "config.toml"), provider.join("\n"));
      const { exitCode, stdout, exchanges, completions, log } = await runSession(folder, modelPath, {
        rules: rules(call("exec_command", { cmd: "cat note.txt" })),
        command: process.execPath,
        // Its own sandbox does not work inside every other one, and the one command that is run is ours.
        args: [
          packageFile("@openai", "codex", "bin", "codex.js"),
          "exec",
          "--skip-git-repo-check",
          "--dangerously-bypass-approvals-and-sandbox",
          "-c",
          `model_providers.local.base_url="{url}/v1"`,
          "--json",
          QUESTION,
        ],
        env: { CODEX_HOME: home },
        cwd,
        timeoutMs: TIMEOUT_MS,
      });
      expect(exitCode).toBe(0);
      const events = stdout
        .split("\n")
        .filter((line) => line.startsWith("{"))
        .map(
          (line) =>
            JSON.parse(line) as {
              readonly type: string;
              readonly item?: { readonly type: string; readonly text?: string; readonly aggregated_output?: string };
            },
        );
      expect(events.at(-1)?.type).toBe("turn.completed");
      const items = events.filter(({ type }) => type === "item.completed").map(({ item }) => item);
      expect(items.find((item) => item?.type === "command_execution")?.aggregated_output).toBe("seventeen foxes\n");
      expect(items.at(-1)).toMatchObject({ type: "agent_message", text: ANSWER });
      expect(exchanges.map(({ status }) => status)).toEqual(exchanges.map(() => 200));
      expect(completions).toHaveLength(2);
      // The thought came back with the call.
      expect(
        exchanges
          .at(-1)
          ?.body.input.map(({ type }: { type: string }) => type)
          .slice(-4),
      ).toEqual(["reasoning", "message", "function_call", "function_call_output"]);
      expect(log).toContain("was skipped");
    });

    test("Codex finds the model as one of Ollama's (--oss)", async () => {
      const home = folder.file("codex-oss");
      mkdirSync(home);
      const { exitCode, stdout, exchanges } = await runSession(folder, modelPath, {
        rules: [{ when: "foxes", answer: "<think>\nI know.\n</think>\n\nSeventeen.", repeats: true }],
        command: process.execPath,
        args: [
          packageFile("@openai", "codex", "bin", "codex.js"),
          "exec",
          "--skip-git-repo-check",
          "--oss",
          "--local-provider",
          "ollama",
          // This version compares the provider with the configured one.
          "-c",
          `model_provider="ollama"`,
          "-m",
          MODEL_NAME,
          "--json",
          "How many foxes?",
        ],
        env: { CODEX_HOME: home, CODEX_OSS_BASE_URL: "{url}/v1" },
        cwd,
        timeoutMs: TIMEOUT_MS,
      });
      expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`"text":"Seventeen."`)]);
      const paths = exchanges.map(({ url, status }) => `${url.split("?")[0]} ${status}`);
      // It compares names without their tags, and pulls what it does not find.
      const asked = ["/api/version 200", "/api/tags 200", "/api/pull 200", "/v1/responses 200"];
      expect(paths).toEqual(expect.arrayContaining(asked));
    });

    describe("started by `rocmforge launch`, without a configuration of their own", () => {
      let bin: string;
      beforeAll(() => {
        bin = folder.file("bin");
        mkdirSync(bin);
        // As npm would link them, whether or not the packages' own scripts were allowed to run.
        for (const [name, path] of [
          ["claude", packageFile("@anthropic-ai", "claude-code", "cli-wrapper.cjs")],
          ["codex", packageFile("@openai", "codex", "bin", "codex.js")],
        ] as const)
          writeFileSync(join(bin, name), `#!/bin/sh\nexec "${process.execPath}" "${path}" "$@"\n`, { mode: 0o755 });
      });
      const launched = (client: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) => ({
        rules: [{ when: "foxes", answer: "<think>\nI know.\n</think>\n\nSeventeen.", repeats: true }],
        command: process.execPath,
        args: [COMMAND_LINE, "launch", client, "--url", "{url}", "--", ...args],
        env: { PATH: `${bin}${delimiter}${process.env["PATH"] ?? ""}`, ...env },
        cwd,
        timeoutMs: TIMEOUT_MS,
      });

      test("Claude Code answers, by the served model's name alone", async () => {
        const session = launched("claude", ["-p", "How many foxes?", "--output-format", "json"]);
        const { exitCode, stdout, exchanges } = await runSession(folder, modelPath, session);
        expect([exitCode, JSON.parse(stdout)]).toMatchObject([0, { is_error: false, result: "Seventeen." }]);
        const sent = exchanges.filter(({ url }) => url.startsWith("/v1/messages"));
        expect(new Set(sent.map(({ body }) => body.model))).toEqual(new Set([MODEL_NAME]));
      });

      test("Codex answers, by the served model's name alone", async () => {
        const home = folder.file("codex-launched");
        mkdirSync(home);
        const args = ["exec", "--skip-git-repo-check", "--json", "How many foxes?"];
        const session = launched("codex", args, { CODEX_HOME: home });
        const { exitCode, stdout, exchanges } = await runSession(folder, modelPath, session);
        expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`"text":"Seventeen."`)]);
        expect(exchanges.at(-1)?.body.model).toBe(MODEL_NAME);
      });
    });
  },
);
