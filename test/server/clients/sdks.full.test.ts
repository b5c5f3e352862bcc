// The AI SDK in two majors, OpenAI's Agents SDK, LangChain and Ollama's client as their packages have them, against the scripted server: a question, a
// call, its result and an answer, whole and streamed, with a form for the answer and without.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fileURLToPath } from "node:url";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { newerNode, unavailableReason, type Rule, runSession, type SessionResult, writeModel } from "./session.js";

const TIMEOUT_MS = 5 * 60_000;
const CALL = `<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>`;
const ANSWER = `{"city": "Oslo", "rain": true}`;
const UNFITTING = `{"town": "Oslo"}`;
const OUTPUT = { city: "Oslo", rain: true };

/** What is constrained has no thoughts: the template closes them before the answer begins. */
const ASKED = String.raw`<\|im_start\|>assistant\n`;
const CLOSED = `${ASKED}<think>\n\n</think>\n\n$`;
const RESULT = String.raw`It rains in Oslo\.\n</tool_response><\|im_end\|>\n`;
const RULES: readonly Rule[] = [
  { when: `${RESULT}${CLOSED}`, answer: ANSWER, repeats: true },
  { when: `${RESULT}${ASKED}$`, answer: `<think>\nI know.\n</think>\n\n${ANSWER}`, repeats: true },
  { when: "Spelling [a-z_]+, fitting", answer: ANSWER, repeats: true },
  { when: "Spelling [a-z_]+, unfitting", answer: UNFITTING, repeats: true },
  { when: CLOSED, answer: CALL, repeats: true },
  { when: `Question.*${ASKED}$`, answer: `<think>\nI look.\n</think>\n\n${CALL}`, repeats: true },
];

const node = newerNode();
const reason = unavailableReason ?? (node === undefined ? "there is no Node 22 on this machine" : undefined);

describe.skipIf(reason !== undefined)(`SDKs${reason === undefined ? "" : ` (skipped: ${reason})`}`, () => {
  let folder: TemporaryFolder;
  let modelPath: string;
  beforeAll(async () => {
    folder = new TemporaryFolder();
    modelPath = await writeModel(folder);
  });
  afterAll(() => folder[Symbol.dispose]());

  interface ScriptRun {
    readonly session: SessionResult;
    readonly told: Readonly<Record<string, object>>;
  }

  async function runAny(file: string, ...args: readonly string[]): Promise<ScriptRun> {
    const script = fileURLToPath(new URL(file, import.meta.url));
    const session = await runSession(folder, modelPath, {
      rules: RULES,
      command: node ?? "",
      args: [script, "{url}", ...args],
      timeoutMs: TIMEOUT_MS,
    });
    expect([session.exitCode, session.stderr]).toEqual([0, ""]);
    return { session, told: JSON.parse(session.stdout) as ScriptRun["told"] };
  }

  /** All of whose requests are answered. */
  async function runScript(file: string, ...args: readonly string[]): Promise<ScriptRun> {
    const { session, told } = await runAny(file, ...args);
    expect([session.log, session.exchanges.filter(({ status }) => status !== 200)]).toEqual(["", []]);
    return { session, told };
  }

  test.each(["6", "7"])("AI SDK %s: each provider's two turns, whole and streamed, formed and free", async (major) => {
    const { session, told } = await runScript("ai-sdk.mjs", major);
    const names = Object.keys(told);
    expect(names).toHaveLength(20);
    for (const name of names) {
      const formed = name.endsWith("formed");
      expect([name, told[name]]).toMatchObject([
        name,
        {
          steps: 2,
          text: ANSWER,
          results: ["It rains in Oslo."],
          finish: "stop",
          ...(formed ? { output: OUTPUT } : {}),
        },
      ]);
    }
    // Thoughts are a field of their own where the provider's API has one that this client reads.
    expect(told["compatible-whole-free"]).toMatchObject({ reasoning: ["I look.", "I know."] });
    const items = session.exchanges
      .filter(({ url }) => url === "/v1/responses")
      .flatMap(({ body }) => body.input as { readonly type?: string }[]);
    expect(items.some(({ type }) => type === "item_reference")).toBe(true);
  });

  test("other servers' spellings of a form, through the AI SDK: an answer out of form cannot be written", async () => {
    const { told } = await runAny("spellings.mjs");
    const { free, ...spelled } = told;
    expect(free).toEqual([UNFITTING]);
    expect(Object.keys(spelled)).toHaveLength(7);
    // The written answer was not allowed, which is the server's mistake to the client.
    for (const [name, answers] of Object.entries(spelled)) expect([name, answers]).toEqual([name, [ANSWER, 500]]);
  });

  test("Agents SDK: tools, an output type, a conversation that goes on", async () => {
    const { session, told } = await runScript("agents.mjs");
    expect(Object.keys(told)).toHaveLength(8);
    for (const [name, outcome] of Object.entries(told)) {
      const output = name.endsWith("formed") ? OUTPUT : ANSWER;
      const again = name.startsWith("responses-whole") ? { again: output } : {};
      expect([name, outcome]).toMatchObject([name, { output, ...again }]);
    }
    expect(
      session.exchanges.filter(({ body }) => body?.previous_response_id !== undefined).length,
    ).toBeGreaterThanOrEqual(2);
  });

  test("LangChain: tools through both of OpenAI's APIs, whole and streamed", async () => {
    const { told } = await runScript("langchain.mjs");
    expect(Object.keys(told)).toHaveLength(4);
    for (const [name, outcome] of Object.entries(told))
      expect([name, outcome]).toEqual([name, { calls: [["weather", { city: "Oslo" }]], text: ANSWER }]);
  });

  test("Ollama's client: tools and thoughts, with a form for the answer and without, whole and streamed", async () => {
    const { told } = await runScript("ollama.mjs");
    expect(Object.keys(told)).toHaveLength(4);
    for (const [name, outcome] of Object.entries(told))
      expect([name, outcome]).toMatchObject([name, { calls: ["weather"], text: ANSWER }]);
    expect(told["whole-free"]).toMatchObject({ reasoning: ["I look.", "I know."] });
  });
});
