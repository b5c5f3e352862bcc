// Hostile requests and a hostile model against the whole server, in a process of its own: each is refused with 4xx, and
// another client gets its answers all the while.

import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { str } from "../../../src/gguf/entry.js";
import { halfPostText, PlainClient, postText } from "../../../src/server/testing/plain-client.js";
import { HOSTILE_TEMPLATES } from "../../library/chat/hostile-templates.js";
import { SMALL_MODEL } from "../../cli/command-line.js";
import { Served } from "../../cli/served.js";
import { describeCpu } from "../../conformance/subjects.js";
import { copyModel } from "../../support/copied-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { HARMLESS_REQUESTS, HOSTILE_REQUESTS, type HostileRequest } from "./hostile-requests.js";
import { EMBEDDED, IDLE, untilIdle } from "./running-server.js";

const TEMPLATE_KEY = "tokenizer.chat_template";
/** As many as do what templates of files should not: take all time, take all memory, fail. */
const TEMPLATES = ["endless loop", "doubling in a namespace", "recursion", "not a template"];

/** Well until somebody says the word: nothing is found out by trying it. */
const TRAP = "trap";
const TRAP_TEMPLATE = `{% if "endless" in messages[0].content %}${HOSTILE_TEMPLATES["endless loop"]}{% endif %}{{ messages[0].content }}`;

const nameOf = (template: string): string => template.replaceAll(" ", "-");

/** The same model with another template. */
const writeModel = (path: string, template: string): Promise<void> =>
  copyModel(SMALL_MODEL, path, [str(TEMPLATE_KEY, template)]);

describeCpu("a server among enemies", () => {
  let folder: TemporaryFolder;
  let served: Served;
  let asked = 0;
  let answeredMeanwhile = 0;
  beforeAll(async () => {
    folder = new TemporaryFolder();
    const models = TEMPLATES.map((template) => ({
      template,
      name: nameOf(template),
      path: folder.file(`${nameOf(template)}.gguf`),
    }));
    for (const { template, path } of models) await writeModel(path, HOSTILE_TEMPLATES[template]);
    models.push({ template: TRAP, name: TRAP, path: folder.file("trap.gguf") });
    await writeModel(folder.file("trap.gguf"), TRAP_TEMPLATE);
    served = await Served.start([
      "-m",
      `fable=${EMBEDDED}`,
      ...models.flatMap(({ name, path }) => ["-m", `${name}=${path}`]),
      "--backend",
      "cpu",
      "--log-level",
      "error",
    ]);
  });
  afterAll(async () => {
    await served[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  async function send({
    path,
    body,
    headers = {},
  }: HostileRequest): Promise<{ readonly status: number; readonly text: string }> {
    const response = await fetch(`${served.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: body instanceof Uint8Array ? body : JSON.stringify(body),
    });
    return { status: response.status, text: await response.text() };
  }

  /** An honest client: a chat that nobody has asked for before, so that nothing of it is known already. */
  async function expectAnswer(): Promise<void> {
    const messages = [{ role: "user", content: `Tell me story number ${asked++}.` }];
    const { status, text } = await send({
      path: "/v1/chat/completions",
      body: { model: "fable", messages, max_tokens: 4, ignore_eos: true },
    });
    expect([status, text]).toEqual([200, expect.stringContaining(`"completion_tokens":4`)]);
  }

  /** Another, who wants a form that nobody has asked for before. */
  async function expectColour(): Promise<void> {
    const schema = { enum: ["red", "green", `blue ${asked++}`] };
    const body = {
      model: "fable",
      messages: [{ role: "user", content: "Which?" }],
      response_format: { type: "json_schema", json_schema: { name: "colour", schema } },
    };
    const { status, text } = await send({ path: "/v1/chat/completions", body });
    expect([status, text]).toEqual([200, expect.stringMatching(/"content":"\\"(?:red|green|blue)/)]);
  }

  /** Answers to the honest client that came before the work was done. */
  async function answersDuring(work: Promise<unknown>): Promise<number> {
    let isDone = false;
    const done = work.finally(() => (isDone = true));
    let answers = 0;
    while (!isDone) {
      await expectAnswer();
      if (isDone) continue;
      answers++;
      answeredMeanwhile++;
    }
    await done;
    return answers;
  }

  async function expectRefusal(request: HostileRequest): Promise<string> {
    const { status, text } = await send(request);
    expect([status, text]).toEqual([
      expect.toSatisfy((found: number) => found >= 400 && found < 500),
      expect.stringContaining(`"error"`),
    ]);
    return text;
  }

  test.each(Object.entries(HOSTILE_REQUESTS))("rejects %s, and answers another", async (_name, request) => {
    await Promise.all([expectRefusal(request), expectAnswer()]);
  });

  test.each(Object.entries(HARMLESS_REQUESTS))("answers %s", async (_name, request) => {
    // On a busy machine a compilation may exceed its time, and is refused for that.
    const answered = { status: 200, text: expect.stringContaining(`"finish_reason"`) };
    await expect.poll(() => send(request), { interval: 500 }).toEqual(answered);
  });

  test("rejects all of them at once, and answers another all the while", async () => {
    const refused = Promise.all(Object.values(HOSTILE_REQUESTS).map(expectRefusal));
    expect(await answersDuring(refused)).toBeGreaterThan(0);
    await expectAnswer();
  });

  test.each(TEMPLATES)("rejects chats of a model whose template is: %s", async (template) => {
    const model = nameOf(template);
    const text = await expectRefusal({
      path: "/v1/chat/completions",
      body: { model, messages: [{ role: "user", content: "Hi" }] },
    });
    expect(text).toMatch(/"code":"(?:limit_exceeded|chat_template)"/);
    // The model itself is well.
    expect(await send({ path: "/v1/completions", body: { model, prompt: "Once", max_tokens: 2 } })).toMatchObject({
      status: 200,
    });
  });

  test("answers others while endless templates and an ambiguous grammar are worked on", async () => {
    const trapped = (index: number): HostileRequest => ({
      path: "/v1/chat/completions",
      body: { model: TRAP, messages: [{ role: "user", content: `endless ${index}` }] },
    });
    const regex: HostileRequest = {
      path: "/v1/chat/completions",
      body: { model: "fable", messages: [{ role: "user", content: "Hi" }], regex: "(.{0,255}a.{0,255}){1,255}" },
    };
    // As many as there are threads for templates, twice, and the first of them do not wait for their answers.
    for (const index of [2, 3])
      void fetch(`${served.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(trapped(index).body),
        signal: AbortSignal.timeout(100),
      }).catch(() => {});
    await pause(150);
    const followed = async (): Promise<void> => expect([200, 400]).toContain((await send(regex)).status);
    const refused = Promise.all([expectRefusal(trapped(0)), expectRefusal(trapped(1)), followed()]);
    const order: string[] = [];
    const colour = expectColour().then(() => order.push("answer in a form"));
    const answers = await answersDuring(refused.then(() => order.push("refusals")));
    await colour;
    expect(order).toEqual(["answer in a form", "refusals"]);
    expect(answers).toBeGreaterThan(20);
  });

  test("answers others while connections are abused", async () => {
    const long = {
      model: "fable",
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 500,
      ignore_eos: true,
      stream: true,
    };
    const path = "/v1/chat/completions";
    const abuses: readonly (readonly string[])[] = [
      // Several at once, and left.
      [postText(path, long).repeat(3)],
      // Bytes that are no HTTP, after an answer has begun.
      [postText(path, long), "nonsense\r\n\r\n"],
      // Half of a request.
      [halfPostText(path)],
      ["nonsense\r\n\r\n", "nonsense\r\n\r\n"],
      ["GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ];
    const abuse = async (parts: readonly string[]): Promise<string> => {
      using client = await PlainClient.connect(served.url);
      client.read();
      for (const part of parts) {
        client.send(part);
        await pause(100);
      }
      return client.text;
    };
    // However fast it is, an answer begins when the one before it has come whole.
    const count = (text: string, mark: string): number => text.split(mark).length - 1;
    const isMixed = (text: string): boolean => count(text, "HTTP/1.1") > 1 + count(text, "data: [DONE]");
    // As long as it takes until another has its answer.
    const abuseAll = async (): Promise<void> => {
      const before = answeredMeanwhile;
      do {
        const texts = await Promise.all([...abuses, ...abuses].map(abuse));
        expect(texts.filter(isMixed)).toEqual([]);
      } while (answeredMeanwhile === before);
    };
    expect(await answersDuring(abuseAll())).toBeGreaterThan(0);
  });

  test("keeps nothing of it", async () => {
    expect(await untilIdle(served.url)).toEqual(IDLE);
    expect(served.stderr).not.toContain(`"level":50`);
    served.kill("SIGTERM");
    expect(await served.status).toBe(0);
  });
});
