// Requests of the README and of docs/: every curl example runs as printed, against `rocmforge serve` on the port it names.

import { execFile } from "node:child_process";
import { connect } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violation } from "../../../src/grammar/testing/schema-validator.js";
import { Served } from "../../cli/served.js";
import { SHELL_COMMANDS } from "../../support/document-blocks.js";

const run = promisify(execFile);
const PORT = 8080;
const requests = SHELL_COMMANDS.filter(({ command }) => command.startsWith("curl "));
const EXAMPLES = [...new Set(requests.map(({ command }) => command))];

interface ChatAnswer {
  readonly choices: readonly {
    readonly message: {
      readonly content: string | null;
      readonly tool_calls?: readonly { readonly function: { readonly arguments: string } }[];
    };
    readonly finish_reason: string;
  }[];
}

function portIsTaken(): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(PORT, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

/** The JSON that an example sends. */
function bodyOf(example: string): {
  readonly response_format?: { readonly json_schema: { readonly schema: unknown } };
  readonly tools?: readonly { readonly function: { readonly parameters: unknown } }[];
  readonly stream?: boolean;
} {
  return JSON.parse(/-d '(?<body>[^']*)'/.exec(example)?.groups?.["body"] ?? "") as ReturnType<typeof bodyOf>;
}

test("there are examples of every kind", () => {
  expect(requests.filter(({ page }) => page === "README.md")).toHaveLength(6);
  expect(requests.some(({ page }) => page === "docs/guide/serving.md")).toBe(true);
  const shell = EXAMPLES.join("\n");
  for (const word of [`"stream": true`, `"json_schema"`, `"tools"`, "/v1/embeddings", "/v1/messages"])
    expect(shell).toContain(word);
});

describe("curl examples of the README and of docs/", () => {
  let served: Served;
  let isMoved = false;
  beforeAll(async () => {
    isMoved = await portIsTaken();
    served = await Served.start(["--log-level", "silent", ...(isMoved ? [] : ["--port", String(PORT)])]);
  });
  afterAll(() => served[Symbol.asyncDispose]());

  test.each(EXAMPLES.map((example, index) => [index + 1, example] as const))(
    "example %i runs as printed",
    async (_number, example) => {
      // As printed where the port is free; somebody else's program is not the README's fault.
      const line = isMoved ? example.replace(`127.0.0.1:${PORT}`, new URL(served.url).host) : example;
      const { stdout } = await run("/bin/sh", ["-c", line]);
      if (!example.includes(" -d ")) {
        expect(stdout).toMatch(/\S/);
        expect(stdout).not.toContain('"error"');
        return;
      }
      const { response_format: format, tools, stream } = bodyOf(example);
      if (stream === true) {
        expect(stdout).toMatch(
          /^data: \{[^]*"usage":\{"prompt_tokens":\d+,"completion_tokens":\d+[^]*\n\ndata: \[DONE\]\n\n$/,
        );
        return;
      }
      const answer: unknown = JSON.parse(stdout);
      expect(answer).not.toHaveProperty("error");
      if (example.includes("/v1/embeddings")) expect(answer).toMatchObject({ data: [{ index: 0 }, { index: 1 }] });
      else if (example.includes("/v1/messages"))
        expect(answer).toMatchObject({ type: "message", content: [{ type: "text" }] });
      else {
        const [{ message, finish_reason: reason }] = (answer as ChatAnswer).choices;
        if (format !== undefined)
          expect(
            violation(format.json_schema.schema, format.json_schema.schema, JSON.parse(message.content ?? "")),
          ).toBeUndefined();
        else if (tools === undefined) expect(message.content).toMatch(/\S/);
        else {
          const { parameters } = tools[0].function;
          expect(reason).toBe("tool_calls");
          expect(
            violation(parameters, parameters, JSON.parse(message.tool_calls?.[0].function.arguments ?? "")),
          ).toBeUndefined();
        }
      }
    },
  );
});
