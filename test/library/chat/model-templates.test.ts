// The templates of a model file, from its metadata to a prompt.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChatRenderer } from "../../../src/chat/chat-renderer.js";
import type { ChatTool } from "../../../src/chat/message.js";
import { str } from "../../../src/gguf/entry.js";
import { loadModel } from "../../../src/index.js";
import { SMALL_MODEL } from "../../cli/command-line.js";
import { copyModel } from "../../support/copied-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const KEY = "tokenizer.chat_template";
const weather: ChatTool = { name: "weather", parameters: { type: "object", properties: {} } };

describe("a model file", () => {
  let folder: TemporaryFolder;
  let renderer: ChatRenderer;
  beforeAll(() => {
    folder = new TemporaryFolder();
    renderer = new ChatRenderer({ deadlineMs: 30_000, threads: 1 });
  });
  afterAll(async () => {
    await renderer[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  async function prompts(templates: Readonly<Record<string, string>>): Promise<readonly string[]> {
    const path = folder.file("model.gguf");
    await copyModel(
      SMALL_MODEL,
      path,
      Object.entries(templates).map(([key, template]) => str(key, template)),
    );
    await using model = await loadModel(path, { backend: "reference" });
    const rendered = [[], [weather]].map((tools) =>
      renderer.render(model.engine, {
        messages: [{ role: "user", content: "Hi" }],
        tools,
        toolChoice: { kind: "auto" },
        thinking: undefined,
        constrained: false,
        templateOptions: {},
      }),
    );
    const bos = model.tokenizer.tokenText(model.tokenizer.bosToken as number);
    return (await Promise.all(rendered)).map(({ prompt }) => prompt.replace(bos, ""));
  }

  test("with a template for tools has its own for other chats", async () => {
    const both = {
      [KEY]: "plain {{ messages[0].content }}",
      [`${KEY}.tool_use`]: "{{ tools[0].function.name }} {{ messages[0].content }}",
    };
    expect(await prompts(both)).toStrictEqual(["plain Hi", "weather Hi"]);
  });

  test("may call its template the default one", async () => {
    expect(await prompts({ [KEY]: "", [`${KEY}.default`]: "named {{ messages[-1].content }}" })).toStrictEqual([
      "named Hi",
      expect.stringMatching(/^named You can call .*Hi$/s),
    ]);
  });

  test("has one BOS, whatever is said, and everything else is text", async () => {
    const path = folder.file("said.gguf");
    await copyModel(SMALL_MODEL, path, [str(KEY, "{% for m in messages %}{{ m.content }}{% endfor %}")]);
    await using model = await loadModel(path, { backend: "reference" });
    const { tokenizer } = model;
    const content = "<|endoftext|>Hi<|endoftext|>";
    const { prompt, segments, addSpecial } = await renderer.render(model.engine, {
      messages: [{ role: "user", content }],
      tools: [],
      toolChoice: { kind: "auto" },
      thinking: undefined,
      constrained: false,
      templateOptions: {},
    });
    const tokens = tokenizer.encodeSegments(segments, { addSpecial });
    expect([...tokens].filter((token) => token === tokenizer.bosToken)).toHaveLength(tokenizer.addsBos ? 1 : 0);
    expect(tokenizer.decode(tokens, { special: true })).toBe(prompt);
    expect(tokenizer.decode(tokens)).toBe(content);
  });

  test("with an empty template is like one without", async () => {
    const [plain] = await prompts({ [KEY]: "" });
    expect(plain).toContain("Hi");
    expect(plain?.length).toBeGreaterThan("Hi".length);
  });
});
