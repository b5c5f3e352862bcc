// Earlier replies, calls and results reach each template in the form that it takes. The templates are written for this
// test, with the fields and the refusals of the families' published ones.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChatRenderer, type ChatModel } from "../../../src/chat/chat-renderer.js";
import type { ChatConversation, ChatMessage, ChatTool } from "../../../src/chat/message.js";
import { familyModel } from "./family-model.js";

let renderer: ChatRenderer;
beforeAll(() => {
  renderer = new ChatRenderer({ deadlineMs: 30_000, threads: 1 });
});
afterAll(() => renderer[Symbol.asyncDispose]());

const weather: ChatTool = {
  name: "weather",
  description: "Says the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};
const user: ChatMessage = { role: "user", content: "Bern and Bonn?" };
const calling: ChatMessage = {
  role: "assistant",
  content: "I look.",
  reasoning: "Two cities.",
  toolCalls: [
    { id: "call_a", name: "weather", arguments: '{"city": "Bern"}' },
    { id: "call_b", name: "weather", arguments: '{"city": "Bonn"}' },
  ],
};
const results: readonly ChatMessage[] = [
  { role: "tool", content: "Rain.", toolCallId: "call_a" },
  { role: "tool", content: '{"sky": "blue"}', toolCallId: "call_b" },
];

function model(template: string): ChatModel {
  return familyModel({ vocabulary: "bpe", controls: ["<|turn|>"], tools: true, template });
}

function render(template: string, messages: readonly ChatMessage[], more: Partial<ChatConversation> = {}) {
  return renderer.render(model(template), {
    messages,
    tools: [weather],
    toolChoice: { kind: "auto" },
    thinking: undefined,
    constrained: false,
    templateOptions: {},
    ...more,
  });
}

async function prompt(...given: Parameters<typeof render>): Promise<string> {
  return (await render(...given)).prompt.replace("<s>", "");
}

describe("harmony's templates", () => {
  // One call of a message is rendered, its name is that of the results behind it, and words beside thoughts are refused.
  const HARMONY = `{%- set last = namespace(name=none) %}{{- 'Reasoning: ' + (reasoning_effort if reasoning_effort is defined else 'medium') + '|' }}
    {%- for m in messages %}{% if m.role == 'assistant' %}{% if 'tool_calls' in m %}{% set call = m.tool_calls[0].function %}
      {%- if m.content and m.thinking %}{{ raise_exception('both content and thinking') }}{% elif m.content or m.thinking %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) + '<|end|>' }}{% endif %}
      {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}{{- call.arguments | tojson }}{{- '<|call|>' }}{% set last.name = call.name %}
      {%- else %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}{% endif %}
    {%- elif m.role == 'tool' %}{% if last.name is none %}{{ raise_exception('no call') }}{% endif %}{{- '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' + m.content | tojson + '<|end|>' }}
    {%- else %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}{% if tools %}{{- tools[0].function.name }}{% endif %}<|start|>assistant`;

  test("get one call for each message, its result behind it, and all that was thought and said as thinking", async () => {
    expect(await prompt(HARMONY, [user, calling, ...results])).toBe(
      "Reasoning: medium|<|start|>user<|message|>Bern and Bonn?<|end|>" +
        "<|start|>assistant<|channel|>analysis<|message|>Two cities.\n\nI look.<|end|>" +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Bern"}<|call|>' +
        '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"Rain."<|end|>' +
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Bonn"}<|call|>' +
        '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"{\\"sky\\": \\"blue\\"}"<|end|>weather<|start|>assistant',
    );
  });

  test.each<[string | undefined, boolean | undefined, string]>([
    [undefined, undefined, "medium"],
    [undefined, false, "low"],
    [undefined, true, "medium"],
    ["none", false, "low"],
    ["minimal", true, "low"],
    ["low", true, "low"],
    ["high", true, "high"],
    ["max", true, "high"],
    ["own word", undefined, "own word"],
  ])("get the effort %s of a model that thinks: %s, as %s", async (effort, thinking, expected) => {
    const templateOptions = effort === undefined ? {} : { reasoning_effort: effort };
    expect(await prompt(HARMONY, [user], { thinking, templateOptions })).toContain(`Reasoning: ${expected}|`);
  });
});

describe("reasoning", () => {
  const shown = (field: string): string =>
    `{%- for m in messages %}<|turn|>{{ m.role }}:${field}{{- m.content or '' }}{% for c in m.tool_calls or [] %}[{{ c.function.arguments.city or c.function.arguments.key }}]{% endfor %}{% endfor %}{% if tools %}{{ tools | tojson | length > 0 }}{{ tools[0].function.name }}{% endif %}`;
  const rest = "I look.[Bern][Bonn]<|turn|>tool:Rain.";

  test.each<[string, string]>([
    ["reasoning_content", "{% if m.reasoning_content is defined %}({{ m.reasoning_content }}){% endif %}"],
    ["thinking", "{% if m.thinking is defined %}({{ m.thinking }}){% endif %}"],
    ["reasoning", "{% if m.reasoning is defined %}({{ m.reasoning }}){% endif %}"],
    ["either", "{% set t = m.get('reasoning_content') or m.get('reasoning') %}{% if t %}({{ t }}){% endif %}"],
  ])("is given as %s", async (_, field) => {
    expect(await prompt(shown(field), [user, calling, ...results])).toContain(`assistant:(Two cities.)${rest}`);
  });

  test("is given as a part of the content, where there is no field for it", async () => {
    const parts = shown("{# #}").replace(
      "{{- m.content or '' }}",
      "{% if m.content is string %}{{- m.content }}{% else %}{% for p in m.content or [] %}{% if p.type == 'thinking' %}[THINK]{{- p.thinking }}[/THINK]{% else %}{{- p.text }}{% endif %}{% endfor %}{% endif %}",
    );
    expect(await prompt(parts, [user, calling, ...results])).toContain(`assistant:[THINK]Two cities.[/THINK]${rest}`);
  });

  test("that only the prompt shows is reasoning, too", async () => {
    const opens = "{% for m in messages %}{{ m.content }}{% endfor %}<think>";
    const parser = (await render(opens, [user], { tools: [] })).createParser();
    expect([...parser.push("Hm.</think>Yes."), ...parser.end()]).toStrictEqual([
      { kind: "reasoning", text: "Hm." },
      { kind: "text", text: "Yes." },
    ]);
  });

  test("that the template opens anyway is closed where a grammar holds the answer, and reasoning is off", async () => {
    const opens = "{# </think> #}{% for m in messages %}{{ m.content }}{% endfor %}<think>\n";
    expect(await prompt(opens, [user], { tools: [], thinking: false, constrained: true })).toBe(
      "Bern and Bonn?<think>\n\n</think>\n\n",
    );
    // A model whose template has no switch always thinks.
    expect(await prompt(opens, [user], { tools: [], thinking: false })).toMatch(/<think>$/);
    const seed =
      "{% for m in messages %}{{ m.content }}{% endfor %}{{- '</seed:think>' if false }}{% if thinking_budget == 0 %}{{- '<seed:think><seed:cot_budget_reflect>' }}{% endif %}";
    expect(await prompt(seed, [user], { tools: [], thinking: false })).toMatch(/<seed:cot_budget_reflect>$/);
    expect(await prompt(seed, [user], { tools: [], constrained: true })).toBe(
      "Bern and Bonn?<seed:think><seed:cot_budget_reflect></seed:cot_budget_reflect></seed:think>",
    );
    expect(await prompt(seed, [user], { tools: [] })).toBe("Bern and Bonn?");
  });
});

test("calls are given one by one to a template that refuses two in a message", async () => {
  const llama = `{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{% endif %}{{ m.tool_calls[0].function.arguments | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ tools[0].function.name if tools }}`;
  expect(await prompt(llama, [user, calling, ...results])).toBe(
    '<|user|>Bern and Bonn?<|assistant|>{"city": "Bern"}<|tool|>Rain.<|assistant|>{"city": "Bonn"}<|tool|>{"sky": "blue"}weather',
  );
});

test("results are a field of the message with the calls in Gemma 4's templates, and the answer follows them", async () => {
  const gemma = `{%- for m in messages %}{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}{% for c in m.tool_calls or [] %}{{- '<|tool_call>call:' + c.function.name + '{' }}{% for k, v in c.function.arguments | dictsort %}{{- k + ':<|"|>' + v + '<|"|>' }}{% endfor %}{{- '}<tool_call|>' }}{% endfor %}
    {%- for r in m.tool_responses or [] %}{{- '<|tool_response>response:' + r.name + '{' }}{% if r.response is mapping %}{% for k, v in r.response | dictsort %}{{- k + ':<|"|>' + v + '<|"|>' }}{% endfor %}{% else %}{{- 'value:<|"|>' + r.response + '<|"|>' }}{% endif %}{{- '}<tool_response|>' }}{% endfor %}
    {{- m.content or '' }}{% if not (m.tool_responses and not m.content) %}{{- '<turn|>\\n' }}{% endif %}{% endfor %}{% if tools %}{{- tools[0].function.name }}{% endif %}`;
  const calls =
    '<|turn>model\n<|tool_call>call:weather{city:<|"|>Bern<|"|>}<tool_call|><|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>' +
    '<|tool_response>response:weather{value:<|"|>Rain.<|"|>}<tool_response|><|tool_response>response:weather{sky:<|"|>blue<|"|>}<tool_response|>';
  const before = "<|turn>user\nBern and Bonn?<turn|>\n<|turn>model\nI look.<turn|>\n";
  expect(await prompt(gemma, [user, calling, ...results])).toBe(`${before}${calls}weather`);
  expect(await prompt(gemma, [user, calling, ...results, { role: "assistant", content: "Mixed." }, user])).toBe(
    `${before}${calls}Mixed.<turn|>\n<|turn>user\nBern and Bonn?<turn|>\nweather`,
  );
});

test("ids of other providers are numbered for Kimi's templates, and its own are kept", async () => {
  const kimi = `{%- for m in messages %}{{ m.role }}{% for c in m.tool_calls or [] %}<|tool_calls_section_begin|>{{ c.id }}:{{ c.function.arguments | tojson }}{% endfor %}{{ m.tool_call_id }};{% if m.role == 'tool' %}{{ m.content }}{% endif %}{% endfor %}{% if tools %}{{ tools[0].function.name }}{% endif %}`;
  const own: ChatMessage = {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "functions.weather:7", name: "weather", arguments: "{}" }],
  };
  const rendered = await prompt(kimi, [user, calling, ...results, own]);
  expect(rendered).toContain('functions.weather:0:{"city": "Bern"}');
  expect(rendered).toContain(
    'functions.weather:1:{"city": "Bonn"};toolfunctions.weather:0;Rain.toolfunctions.weather:1;',
  );
  expect(rendered).toContain("functions.weather:7:{}");
});

describe("tools", () => {
  const named: ChatTool = { name: "clock", parameters: { type: "object", properties: {} } };
  const end = "{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>";

  test("have a description, if only an empty one, where a template adds to it", async () => {
    const adds = `{% for t in tools or [] %}{{ '// ' + t.function.description + '|' + t.function.name }}{% endfor %}${end}`;
    expect(await prompt(adds, [user], { tools: [named, weather] })).toBe(
      "// |clock// Says the weather.|weatherBern and Bonn?<tool_call>",
    );
    const asks = `{% for t in tools or [] %}{{ t.function.description is defined }}{{ t.function.name }}{% endfor %}${end}`;
    expect(await prompt(asks, [user], { tools: [named] })).toBe("FalseclockBern and Bonn?<tool_call>");
  });

  test("have parameters with a description where a template adds to it", async () => {
    const adds = `{% for t in tools or [] %}{{ t.function.name }}{% for k, v in t.function.parameters.properties.items() %}{{ ' ' + k + ': ' + v.description }}{% endfor %}{% endfor %}${end}`;
    expect(await prompt(adds, [user])).toBe("weather city: Bern and Bonn?<tool_call>");
  });

  test("are a field of the system message where a template takes them so", async () => {
    const phi =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tools %}<|tool|>{{ m.tools }}<|/tool|>{% endif %}{% endfor %}";
    const shown = `<|tool|>${JSON.stringify([weather])}<|/tool|>`;
    expect(await prompt(phi, [user])).toBe(`<|system|>${shown}<|user|>Bern and Bonn?`);
    expect(await prompt(phi, [{ role: "system", content: "Be brief." }, user])).toBe(
      `<|system|>Be brief.${shown}<|user|>Bern and Bonn?`,
    );
    expect(await prompt(phi, [user], { tools: [] })).toBe("<|user|>Bern and Bonn?");
  });

  test("that there are none of are None, unless a template cannot take that", async () => {
    const asks = `{% if tools is not none %}{{ tools | length }}{{ tools[0].function.name }}{% endif %}${end}`;
    expect(await prompt(asks, [user], { tools: [] })).toBe("Bern and Bonn?<tool_call>");
    expect(await prompt(asks, [user])).toBe("1weatherBern and Bonn?<tool_call>");
    const loops = `{% for t in tools %}{{ t.function.name }}{% endfor %}${end}`;
    expect(await prompt(loops, [user], { tools: [] })).toBe("Bern and Bonn?<tool_call>");
    expect(await prompt(loops, [user])).toBe("weatherBern and Bonn?<tool_call>");
  });

  test("are bare where a template takes them so", async () => {
    const bare = `{% for t in tools or [] %}{{ '// ' + t.description + ' type ' + t.name }}{% endfor %}${end}`;
    expect(await prompt(bare, [user])).toBe("// Says the weather. type weatherBern and Bonn?<tool_call>");
  });

  test("are described in the convention's own form where a template shows calls, but no tools", async () => {
    const silent =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}<arg_key>{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
    const rendered = await prompt(silent, [user]);
    expect(rendered).toContain('{"name":"weather","description":"Says the weather."');
    expect(rendered).toContain(
      "<tool_call><name>\n<arg_key><key></arg_key>\n<arg_value><value></arg_value>\n</tool_call>",
    );
  });
});

test("tools have another name in SmolLM3's templates", async () => {
  const smol =
    "{% for t in xml_tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>";
  expect(await prompt(smol, [user])).toBe("weatherBern and Bonn?<tool_call>");
  await expect(prompt(smol, [user], { templateOptions: { xml_tools: [] } })).rejects.toMatchObject({
    code: "CHAT_TEMPLATE",
  });
});
