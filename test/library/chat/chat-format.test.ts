// Conversations to prompts: templates in the style of each family, written for this test, and the defaults for files
// without one. Rendering runs in the real workers.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readChatTemplates } from "../../../src/chat/template/chat-templates.js";
import { ChatRenderer, type ChatModel } from "../../../src/chat/chat-renderer.js";
import type { ChatConversation, ChatDelta, ChatMessage, ChatTool } from "../../../src/chat/message.js";
import { ChatError } from "../../../src/errors.js";
import { GgufMetadata } from "../../../src/gguf/metadata.js";

let renderer: ChatRenderer;
beforeAll(() => {
  renderer = new ChatRenderer({ deadlineMs: 30_000, threads: 1 });
});
afterAll(() => renderer[Symbol.asyncDispose]());

/** A vocabulary of these tokens, and of one token for each character that belongs to none of them. */
function model(
  tokens: readonly string[],
  chatTemplate?: string,
  more: { addsBos?: boolean; toolChatTemplate?: string } = {},
): ChatModel {
  const all = ["<s>", "</s>", ...tokens];
  return {
    chatTemplates: { default: chatTemplate, toolUse: more.toolChatTemplate },
    tokenizer: {
      bosToken: 0,
      eosToken: 1,
      addsBos: more.addsBos ?? false,
      encode: (text) =>
        all.includes(text)
          ? Int32Array.of(all.indexOf(text))
          : Int32Array.from(text, (character) => 1000 + (character.codePointAt(0) as number)),
      tokenText: (id) => all[id] as string,
    },
  };
}

const hello: readonly ChatMessage[] = [{ role: "user", content: "Hello!" }];
const weather: ChatTool = {
  name: "weather",
  description: "Says the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const afterCall: readonly ChatMessage[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Weather in Bern?" },
  {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "call_0123456789", name: "weather", arguments: '{"city": "Bern", "days": 2}' }],
  },
  { role: "tool", content: "Rain.", toolCallId: "call_0123456789", name: "weather" },
];

function conversation(messages: readonly ChatMessage[], more: Partial<ChatConversation> = {}): ChatConversation {
  return {
    messages,
    tools: [],
    toolChoice: { kind: "auto" },
    thinking: undefined,
    constrained: false,
    templateOptions: {},
    ...more,
  };
}

const prompt = async (
  chatModel: ChatModel,
  messages: readonly ChatMessage[],
  more?: Partial<ChatConversation>,
): Promise<string> => (await renderer.render(chatModel, conversation(messages, more))).prompt;

const kinds = (deltas: readonly ChatDelta[]): string => deltas.map(({ kind }) => kind).join(" ");

describe("default templates", () => {
  const chatml = model(["<|im_start|>", "<|im_end|>"]);

  test("ChatML, where the vocabulary has its marks", async () => {
    expect(await prompt(chatml, [{ role: "system", content: "Be kind." }, ...hello])).toBe(
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n",
    );
    const rendered = await renderer.render(chatml, conversation(afterCall, { tools: [weather] }));
    expect(rendered.prompt).toContain(
      '<tools>\n{"type": "function", "function": {"name": "weather", "description": "Says the weather.", "parameters"',
    );
    expect(rendered.prompt).toMatch(/^<\|im_start\|>system\nBe brief\.\n\nYou may call/);
    expect(rendered.prompt).toContain(
      '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern", "days": 2}}\n</tool_call><|im_end|>\n',
    );
    expect(rendered.prompt).toMatch(
      /<tool_response>\nRain\.\n<\/tool_response><\|im_end\|>\n<\|im_start\|>assistant\n$/,
    );
    expect(kinds(rendered.createParser().push('<tool_call>{"name": "weather", "arguments": {}}</tool_call>'))).toBe(
      "call arguments call-end",
    );
  });

  test("headers, with one BOS whether the tokenizer adds it or not", async () => {
    for (const addsBos of [true, false]) {
      const headers = model(["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], undefined, { addsBos });
      expect(await prompt(headers, hello)).toBe(
        "<s><|start_header_id|>user<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
      );
    }
    const headers = model(["<|start_header_id|>", "<|python_tag|>"]);
    const rendered = await renderer.render(
      headers,
      conversation(afterCall, { tools: [weather], toolChoice: { kind: "named", name: "weather" } }),
    );
    expect(rendered.prompt).toContain(
      '{"name": "weather", "parameters": {"city": "Bern", "days": 2}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\nRain.<|eot_id|>',
    );
    expect(rendered.callForms).toStrictEqual([
      { name: "weather", prefix: '{"name": "weather", "parameters": ', schema: weather.parameters, suffix: "}" },
    ]);
  });

  test("instructions, with the system's words at the head of the user's", async () => {
    const plain = model(["[INST]", "[/INST]"]);
    expect(
      await prompt(plain, [
        { role: "system", content: "Be kind." },
        ...hello,
        { role: "assistant", content: "Hi." },
        ...hello,
      ]),
    ).toBe("<s>[INST] Be kind.\n\nHello! [/INST] Hi.</s>[INST] Hello! [/INST]");
    const withTools = model(["[INST]", "[/INST]", "[TOOL_CALLS]"]);
    const rendered = await renderer.render(
      withTools,
      conversation([...afterCall, { role: "user", content: "And?" }], { tools: [weather] }),
    );
    // Ids of other providers are replaced by ids of nine characters, the same for the call and its result.
    const id = /"id": "([0-9a-f]{9})"\}\]<\/s>\[TOOL_RESULTS\]\{"content": "Rain\.", "call_id": "([0-9a-f]{9})"\}/.exec(
      rendered.prompt,
    );
    expect(id?.[1]).toBe(id?.[2]);
    expect(rendered.prompt).toContain("[AVAILABLE_TOOLS][{");
    expect([...rendered.printedTokens].map((token) => withTools.tokenizer.tokenText(token))).toStrictEqual([
      "[TOOL_CALLS]",
    ]);
  });

  test("a plain dialogue, where the model was trained on none", async () => {
    const plain = model([], undefined, { addsBos: true });
    const rendered = await renderer.render(
      plain,
      conversation([
        { role: "developer", content: "A story." },
        ...hello,
        { role: "assistant", content: "Hi." },
        ...hello,
      ]),
    );
    expect(rendered.prompt).toBe("<s>A story.\n\nUser: Hello!\nAssistant: Hi.\nUser: Hello!\nAssistant:");
    expect(rendered.stop).toContain("\nUser:");
    expect(rendered.addSpecial).toBe(false);
    expect(rendered.createParser().push(" Once")).toStrictEqual([{ kind: "text", text: "Once" }]);
    // Tools, calls and results are rendered as text.
    const tooled = await renderer.render(plain, conversation(afterCall, { tools: [weather] }));
    expect(tooled.prompt).toContain('{"name":"weather","description":"Says the weather."');
    expect(tooled.prompt).toContain(
      'Assistant: {"name": "weather", "arguments": {"city": "Bern", "days": 2}}\nUser: Result of weather:\nRain.\nAssistant:',
    );
    expect(kinds(tooled.createParser().push(' {"name": "weather", "arguments": {"city": "Bonn"}}'))).toBe(
      "call arguments call-end",
    );
  });
});

describe("templates of files", () => {
  const THINKING = `
    {%- for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% if m.reasoning_content is defined and loop.last %}({{ m.reasoning_content }}){% endif %}</{{ m.role }}>{% endfor %}
    {%- if add_generation_prompt %}{{ '<assistant>' }}{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% else %}{{ '<think>\\n' }}{% endif %}{% endif %}`;

  test("open a reasoning block in the prompt, and are told not to", async () => {
    const thinker = model([], THINKING);
    const open = await renderer.render(thinker, conversation(hello));
    expect(open.prompt).toBe("<user>Hello!</user><assistant><think>\n");
    expect(open.createParser().push("hm\n</think>\n\nHi")).toStrictEqual([
      { kind: "reasoning", text: "hm" },
      { kind: "text", text: "Hi" },
    ]);
    const quiet = await renderer.render(thinker, conversation(hello, { thinking: false }));
    expect(quiet.prompt).toBe("<user>Hello!</user><assistant><think>\n\n</think>\n\n");
    expect(quiet.createParser().push("Hi")).toStrictEqual([{ kind: "text", text: "Hi" }]);
  });

  test("say whether all of an answer is text that is shown", async () => {
    const hides = async (chatModel: ChatModel, more?: Partial<ChatConversation>): Promise<boolean> =>
      (await renderer.render(chatModel, conversation(hello, more))).hidesText;
    const plain = model(["[INST]", "[/INST]"]);
    expect(await hides(model([], THINKING))).toBe(true);
    expect(await hides(plain)).toBe(false);
    expect(await hides(plain, { tools: [weather] })).toBe(true);
    expect(await hides(plain, { tools: [weather], toolChoice: { kind: "none" } })).toBe(false);
  });

  const stubborn = model(["<think>", "</think>"], "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n");

  test("have their reasoning block closed where a grammar holds the answer and reasoning is off", async () => {
    const off = { thinking: false, constrained: true };
    expect(await prompt(stubborn, hello, off)).toBe("Hello!<think>\n\n</think>\n\n");
    expect(await prompt(stubborn, hello, { ...off, tools: [weather], toolChoice: { kind: "required" } })).toMatch(
      /<think>\n\n<\/think>\n\n$/,
    );
    expect(await prompt(stubborn, hello, { ...off, tools: [weather] })).toMatch(/<think>\n\n<\/think>\n\n$/);
    expect((await renderer.render(stubborn, conversation(hello, off))).thought).toBeUndefined();
  });

  test("keep it open otherwise, and the grammar begins behind it", async () => {
    const opened = await renderer.render(stubborn, conversation(hello, { constrained: true }));
    expect([opened.prompt, opened.thought]).toStrictEqual(["Hello!<think>", { open: undefined, close: "</think>" }]);
    const parser = opened.createParser();
    expect([...parser.push("Hm.\n</think>\n\n"), ...parser.push('{"a": 1} '), ...parser.end()]).toStrictEqual([
      { kind: "reasoning", text: "Hm." },
      { kind: "text", text: '{"a": 1} ' },
    ]);
    // A model that opens it itself does so only if the request asks for reasoning.
    const hybrid = model(
      ["<think>", "</think>"],
      "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think></think>' if enable_thinking is false }}",
    );
    const thoughtOf = async (thinking: boolean | undefined) =>
      (await renderer.render(hybrid, conversation(hello, { constrained: true, thinking }))).thought;
    expect(await thoughtOf(true)).toStrictEqual({ open: "<think>", close: "</think>" });
    expect([await thoughtOf(undefined), await thoughtOf(false)]).toStrictEqual([undefined, undefined]);
  });

  test("give an answer that a grammar holds as it is, with the blanks it begins and ends with", async () => {
    const answer = " <think>\n</think> [] ";
    for (const chatModel of [model(["<think>", "</think>"], THINKING), model(["[INST]", "[/INST]"])]) {
      const parser = (await renderer.render(chatModel, conversation(hello, { constrained: true }))).createParser();
      expect(
        [...parser.push(answer), ...parser.end()]
          .map((delta) => (delta.kind === "text" ? delta.text : delta.kind))
          .join(""),
      ).toBe(answer);
    }
  });

  test("get content in parts where they take nothing else", async () => {
    const parted = model(
      [],
      "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}",
    );
    expect(await prompt(parted, hello)).toBe("user:Hello!;");
  });

  test("get the arguments of calls as they take them", async () => {
    const head =
      "{% for m in messages %}{{ m.content if m.content is not none }}{% for c in m.tool_calls or [] %}{{ c.function.name }}";
    const tail = "{% endfor %}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}";
    const asText = model([], `${head}{{ '=' + c.function.arguments + ';' }}${tail}`);
    expect(await prompt(asText, afterCall)).toContain('weather={"city": "Bern", "days": 2};');
    const asItems = model(
      [],
      `${head}{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>{% endfor %}${tail}`,
    );
    const rendered = await renderer.render(asItems, conversation(afterCall, { tools: [weather] }));
    expect(rendered.prompt).toContain(
      "weather<arg_key>city</arg_key><arg_value>Bern</arg_value><arg_key>days</arg_key><arg_value>2</arg_value>",
    );
    const asXml = model(
      [],
      `${head}{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>{{ v }}</parameter>{% endfor %}<tool_call>${tail}`,
    );
    const xml = await renderer.render(asXml, conversation(afterCall, { tools: [weather] }));
    expect(xml.prompt).toContain("weather<parameter=city>Bern</parameter><parameter=days>2</parameter>");
    expect(
      kinds(
        xml
          .createParser()
          .push("<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n</function>\n</tool_call>"),
      ),
    ).toBe("call arguments call-end");
    expect(
      kinds(
        rendered
          .createParser()
          .push("<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n</tool_call>"),
      ),
    ).toBe("call arguments call-end");
  });

  /** A template that supports no system message, tools or results, and refuses messages that do not alternate. */
  const ALTERNATING = `{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}
    {%- for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}`;
  const twoCalls: readonly ChatMessage[] = [
    { role: "user", content: "Bern and Bonn?" },
    {
      role: "assistant",
      content: "",
      toolCalls: [
        { id: "c1", name: "weather", arguments: '{"city":"Bern"}' },
        { id: "c2", name: "clock", arguments: "" },
      ],
    },
    { role: "tool", content: "Rain.", toolCallId: "c1" },
    { role: "tool", content: "Noon.", toolCallId: "c2" },
  ];

  test("get user and assistant by turns, where results are told as the user's words", async () => {
    const gentle = model([], ALTERNATING);
    const calls =
      '<user>Bern and Bonn?<assistant>{"name": "weather", "arguments": {"city":"Bern"}}\n{"name": "clock", "arguments": {}}';
    expect(await prompt(gentle, twoCalls)).toBe(`${calls}<user>Result of weather:\nRain.\n\nResult of clock:\nNoon.`);
    expect(await prompt(gentle, [...twoCalls, { role: "user", content: "And?" }])).toBe(
      `${calls}<user>Result of weather:\nRain.\n\nResult of clock:\nNoon.\n\nAnd?`,
    );
    expect(await prompt(gentle, [...hello, { role: "system", content: "Be brief." }])).toBe(
      "<user>Hello!\n\nBe brief.",
    );
    // The template decides if the client has given a value twice.
    await expect(prompt(gentle, [...hello, ...hello])).rejects.toThrow("Roles must alternate");
  });

  test("get the names of tools with their results, and an object for no arguments", async () => {
    const named = model(
      [],
      "{% for m in messages %}{{ m.name }}:{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %};{% endfor %}",
    );
    expect(await prompt(named, twoCalls)).toBe(':Bern and Bonn?;:{"city": "Bern"}{};weather:Rain.;clock:Noon.;');
  });

  test("get null for the content of a bare call where words would make a message", async () => {
    const strict = model(
      [],
      "{% for m in messages %}{% for c in m.tool_calls or [] %}[{{ c.function.arguments | tojson }}]{% endfor %}{% if m.content is not none %}<{{ m.content }}>{% endif %}{% endfor %}",
    );
    expect(await prompt(strict, afterCall)).toBe('<Be brief.><Weather in Bern?>[{"city": "Bern", "days": 2}]<Rain.>');
  });

  test("refuse in their own words", async () => {
    const picky = model(
      [],
      "{% for m in messages %}{% if m.role == 'user' and m.content == 'no' %}{{ raise_exception('I do not take no.') }}{% endif %}{{ m.content }}{% endfor %}",
    );
    expect(await prompt(picky, hello)).toBe("Hello!");
    await expect(renderer.render(picky, conversation([{ role: "user", content: "no" }]))).rejects.toMatchObject({
      code: "CHAT_TEMPLATE",
      message: expect.stringContaining("I do not take no.") as string,
    });
    await expect(renderer.render(model([], "{% if %}"), conversation(hello))).rejects.toThrow(ChatError);
  });

  test("say the time, each time anew", async () => {
    const timed = model([], "{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}");
    const now = new Date();
    expect(await prompt(timed, hello)).toMatch(new RegExp(`^${now.getFullYear()}-\\d\\d-\\d\\d Hello!$`));
  });

  test("get their own options, but not in place of the messages", async () => {
    const optional = model([], "{{ tone | default('plain') }}: {{ messages[0].content }}");
    expect(await prompt(optional, hello)).toBe("plain: Hello!");
    expect(await prompt(optional, hello, { templateOptions: { tone: "warm" } })).toBe("warm: Hello!");
    await expect(prompt(optional, hello, { templateOptions: { messages: [] } })).rejects.toMatchObject({
      code: "CHAT_TEMPLATE",
    });
  });

  const bare: ChatTool = {
    name: "clock",
    parameters: {
      type: "object",
      properties: { zone: { type: ["string", "null"] }, at: { type: "integer", enum: [1, 2] } },
      required: ["zone"],
    },
  };

  // Each in the style of a family whose templates were refused, because of a construct that the library's interpreter
  // did not support.
  test.each<[string, string, string]>([
    [
      "Hermes: a parameter without a description",
      "{% for t in tools or [] %}{% for name, field in t.function.parameters.properties.items() %}{{ name }}({{ field.description | trim }}){{ '' if loop.last else ',' }}{% endfor %}{% endfor %}|{{ messages[-1].content }}",
      "zone(),at()|Hello!",
    ],
    [
      "functionary: what is none in a filter, and pairs that are tuples",
      "{{ (tools if tools is defined and not tools else none) | selectattr('type', 'equalto', 'code_interpreter') | list | length }}{% for kind, mark in [('string', 's'), ('integer', 'i')] %}{{ kind }}={{ mark }} {% endfor %}{{ messages[-1].content }}",
      "0string=s integer=i Hello!",
    ],
    [
      "Apriel: the length of what is not defined, and a dictionary as a text",
      "{{ none_such | length }}{{ messages | selectattr('role', 'equalto', 'system') | list | length }}{% for t in tools or [] %}{{ t.function | string }}{% endfor %}{{ messages[-1].content }}",
      "00{'name': 'clock', 'parameters': {'type': 'object', 'properties': {'zone': {'type': ['string', 'null']}, 'at': {'type': 'integer', 'enum': [1, 2]}}, 'required': ['zone']}}Hello!",
    ],
    [
      "Seed: numbers as keys",
      "{% set shares = {0: 0, 512: 128, 1024: 256} %}{% set n = namespace(share=none) %}{% for most, share in shares | dictsort %}{% if n.share is none and 600 <= most %}{% set n.share = share %}{% endif %}{% endfor %}{{ n.share }} {{ shares[512] }}{{ messages[-1].content }}{{ tools | length }}",
      "256 128Hello!1",
    ],
    [
      "Hy: a text that is filled in",
      "{{ '{}:{}'.format(messages[-1].role, messages[-1].content) }}{% set head = '%s has %d' | format('it', tools | length) %} {{ head }}",
      "user:Hello! it has 1",
    ],
    [
      "Gemma: a list in capitals",
      "{% for t in tools or [] %}{{ t.function.parameters.properties.zone.type | upper }}{% endfor %}{{ messages[-1].content }}",
      "['STRING', 'NULL']Hello!",
    ],
    [
      "MiniCPM: the least of a list",
      "{{ [messages | length, 7] | min }}{{ messages[-1].content }}{{ tools | length }}",
      "1Hello!1",
    ],
  ])("%s", async (_, template, expected) => {
    // A template that does not mention tools would get them as text.
    expect(await prompt(model([], `${template}{{ tools[0].function.name if tools }}`), hello, { tools: [bare] })).toBe(
      `${expected}clock`,
    );
  });

  test("of two, the one for tools where there are tools", async () => {
    const two = model([], "plain {{ messages[-1].content }}", {
      toolChatTemplate: "tools {{ tools | length }} {{ tools[0].function.name }}{{ messages[-1].content }}",
    });
    expect(await prompt(two, hello)).toBe("plain Hello!");
    expect(await prompt(two, hello, { tools: [weather] })).toBe("tools 1 weatherHello!");
    expect(await prompt(two, hello, { tools: [weather], toolChoice: { kind: "none" } })).toBe("plain Hello!");
  });

  test("are read from the file, whatever the writer called them", () => {
    const of = (record: Readonly<Record<string, string>>): GgufMetadata => GgufMetadata.of(record);
    expect(readChatTemplates(of({}))).toStrictEqual({ default: undefined, toolUse: undefined });
    expect(
      readChatTemplates(of({ "tokenizer.chat_template": "a", "tokenizer.chat_template.tool_use": "b" })),
    ).toStrictEqual({ default: "a", toolUse: "b" });
    expect(
      readChatTemplates(of({ "tokenizer.chat_template.tool_use": "", "tokenizer.chat_template": " \n" })),
    ).toStrictEqual({ default: undefined, toolUse: undefined });
    expect(
      readChatTemplates(of({ "tokenizer.chat_template.default": "c", "tokenizer.chat_template": "" })),
    ).toStrictEqual({ default: "c", toolUse: undefined });
  });

  test("render nothing for a client that has gone", async () => {
    const controller = new AbortController();
    controller.abort(new Error("gone"));
    await expect(renderer.render(model([]), conversation(hello), controller.signal)).rejects.toThrow("gone");
  });

  test("demand a call only of tools that there are", async () => {
    for (const toolChoice of [{ kind: "named", name: "other" }, { kind: "required" }] as const) {
      const tools = toolChoice.kind === "named" ? [weather] : [];
      await expect(renderer.render(model([]), conversation(hello, { tools, toolChoice }))).rejects.toMatchObject({
        code: "CHAT_TEMPLATE",
      });
    }
  });
});

describe("the prompt of a next turn", () => {
  const rendered = async (template: string, messages = hello) => {
    const chat = await renderer.render(model([], template), conversation(messages, { showsNextTurn: true }));
    return { whole: chat.prompt, next: chat.nextTurn?.map(({ text }) => text).join("") };
  };
  const history = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

  test("shows where the template leaves out what it generated from", async () => {
    const { whole, next } = await rendered(`${history}{% if add_generation_prompt %}[assistant]<think>{% endif %}`);
    expect(whole).toBe("[user]Hello![assistant]<think>");
    expect(next).toBe("[user]Hello![assistant]Yes.[user]Why?[assistant]<think>");
  });

  test("is the messages alone if the template takes no further ones, and absent if it refuses those too", async () => {
    const most = "{% if messages|length > 1 %}{{ raise_exception('one message') }}{% endif %}";
    const generation = "{% if add_generation_prompt %}[assistant]{% endif %}";
    expect(await rendered(`${most}${history}${generation}`)).toEqual({
      whole: "[user]Hello![assistant]",
      next: "[user]Hello!",
    });
    const always = "{% if not add_generation_prompt %}{{ raise_exception('no') }}{% endif %}";
    expect((await rendered(`${most}${always}${history}${generation}`)).next).toBeUndefined();
  });

  test("is not rendered unless it is asked for", async () => {
    expect((await renderer.render(model([], history), conversation(hello))).nextTurn).toBeUndefined();
  });
});
