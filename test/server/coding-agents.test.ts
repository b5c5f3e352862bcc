// What coding agents send, written down from their sessions with this server and shortened: Claude Code 2.1.325 and Codex
// 0.166.0. Every field and every kind of block is as they sent it. The agents themselves are in test/server/clients.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventsOf, startServer, type TestServer } from "../../src/server/testing/test-server.js";

let served: TestServer;
beforeAll(async () => {
  served = await startServer();
});
afterAll(() => served[Symbol.asyncDispose]());
beforeEach(() => {
  served.log.length = 0;
  served.chat.conversations.length = 0;
  served.model.script = {};
});

describe("Claude Code", () => {
  const PATH = "/v1/messages?beta=true";
  const headers = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta":
      "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,effort-2025-11-24",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
  };
  const read = {
    name: "Read",
    description: "Reads a file",
    input_schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: { file_path: { type: "string" } },
      required: ["file_path"],
      additionalProperties: false,
    },
  };
  const hidden = {
    name: "NotebookEdit",
    description: "Edits a notebook",
    input_schema: { type: "object", properties: {} },
    defer_loading: true,
  };
  const first = {
    model: "claude-opus-4-6",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "<system-reminder>\nToday is Monday.\n</system-reminder>\n" },
          { type: "text", text: "What does note.txt say?" },
        ],
      },
      {
        role: "system",
        content: [{ type: "text", text: "# Environment\n", cache_control: { type: "ephemeral" } }],
        output_config: { effort: "medium" },
      },
    ] as object[],
    system: [
      { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.325.af0; cc_entrypoint=sdk-cli; cch=00a1f;" },
      { type: "text", text: "You are a Claude agent.", cache_control: { type: "ephemeral" } },
      { type: "text", text: "\nYou work with the user.", cache_control: { type: "ephemeral" } },
    ],
    tools: [read, hidden] as object[],
    metadata: { user_id: `{"device_id":"0","account_uuid":"","session_id":"0"}` },
    max_tokens: 32_000,
    thinking: { type: "adaptive", display: "omitted" },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    output_config: { effort: "medium" },
    stream: true,
  };
  const lastChat = () => served.chat.conversations.at(-1);
  const toolNames = () => lastChat()?.tools.map(({ name }) => name);

  test("a turn: the question, a call, its result", async () => {
    served.model.script.answer = () => `<think>I look.</think>[Read {"file_path":"note.txt"}]`;
    const { status, text } = await served.post(PATH, first, headers);
    expect(status).toBe(200);
    expect(served.log.join("")).not.toContain("unknown fields");
    expect(lastChat()?.messages).toEqual([
      // Without the line that changes from one request to the next.
      { role: "system", content: "You are a Claude agent.\nYou work with the user." },
      { role: "user", content: "<system-reminder>\nToday is Monday.\n</system-reminder>\nWhat does note.txt say?" },
      { role: "system", content: "# Environment\n" },
    ]);
    const events = eventsOf(text);
    expect(events.map(({ type }) => type)).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_delta",
      "content_block_stop",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(events[0].message.usage).toMatchObject({ cache_read_input_tokens: 2, output_tokens: 0 });
    expect(events.at(-2).delta.stop_reason).toBe("tool_use");
    served.model.script.answer = () => "Seventeen foxes.";
    const turn = [
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "I look.", signature: "" },
          {
            type: "tool_use",
            id: "call_0",
            name: "Read",
            input: { file_path: "note.txt" },
            caller: { type: "direct" },
          },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "call_0",
            content: "1\tseventeen foxes",
            cache_control: { type: "ephemeral" },
          },
        ],
      },
    ];
    const second = await served.post(PATH, { ...first, messages: [...first.messages, ...turn] }, headers);
    expect(second.status).toBe(200);
    expect(lastChat()?.messages.slice(-2)).toEqual([
      {
        role: "assistant",
        content: "",
        reasoning: "I look.",
        toolCalls: [{ id: "call_0", name: "Read", arguments: `{"file_path":"note.txt"}` }],
      },
      { role: "tool", content: "1\tseventeen foxes", toolCallId: "call_0" },
    ]);
  });

  test("the first line of instructions is dropped only where it is that line", async () => {
    for (const [system, kept] of [
      ["x-anthropic-billing-header: cc_version=1; cch=1;\nBe brief.", "Be brief."],
      ["Be brief.\nx-anthropic-billing-header: no", "Be brief.\nx-anthropic-billing-header: no"],
    ]) {
      await served.post(PATH, { ...first, system, stream: false }, headers);
      expect(lastChat()?.messages[0]).toEqual({ role: "system", content: kept });
    }
    await served.post(PATH, { ...first, system: first.system.slice(0, 1), stream: false }, headers);
    expect(lastChat()?.messages[0]?.role).toBe("user");
  });

  test("tools that are kept back are shown when they are named, and tools come and go", async () => {
    const ask = (messages: readonly object[], tools: readonly object[] = first.tools) =>
      served.post(PATH, { ...first, messages: [...first.messages, ...messages], tools, stream: false }, headers);
    await ask([]);
    expect(toolNames()).toEqual(["Read"]);
    const search = {
      role: "assistant",
      content: [{ type: "tool_use", id: "call_0", name: "ToolSearch", input: { query: "select:NotebookEdit" } }],
    };
    const result = (content: unknown) => ({
      role: "user",
      content: [{ type: "tool_result", tool_use_id: "call_0", content }],
    });
    expect((await ask([search, result([{ type: "tool_reference", tool_name: "NotebookEdit" }])])).status).toBe(200);
    expect(toolNames()).toEqual(["Read", "NotebookEdit"]);
    expect(lastChat()?.messages.at(-1)).toEqual({
      role: "tool",
      content: "The tool NotebookEdit can be called now.\n",
      toolCallId: "call_0",
    });
    const change = (type: string, tool: object) => ({ role: "system", content: [{ type, tool }] });
    await ask([
      change("tool_addition", { type: "tool_reference", name: "NotebookEdit" }),
      change("tool_removal", { type: "tool_reference", name: "Read" }),
    ]);
    expect(toolNames()).toEqual(["NotebookEdit"]);
    // Such a message has no words.
    expect(lastChat()?.messages).toHaveLength(3);
    const own = { name: "mcp__notes__list", description: "Lists notes", input_schema: { type: "object" } };
    await ask([change("tool_addition", { type: "tool_definition", definition: own })]);
    expect(toolNames()).toEqual(["Read", "mcp__notes__list"]);
    // Nobody here would search them.
    await ask([], [...first.tools, { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" }]);
    expect(toolNames()).toEqual(["Read", "NotebookEdit"]);
  });

  test("tools that the service would run are skipped, and the log says so", async () => {
    const { status } = await served.post(
      PATH,
      { ...first, tools: [{ type: "web_search_20250305", name: "web_search", max_uses: 8 }, read], stream: false },
      headers,
    );
    expect([status, toolNames()]).toEqual([200, ["Read"]]);
    expect(served.log.join("")).toContain(
      String.raw`a tool of type \"web_search_20250305\" named \"web_search\" was skipped`,
    );
  });

  test("passages that a tool found are text", async () => {
    const found = {
      type: "search_result",
      source: "https://example.com",
      title: "Foxes",
      content: [{ type: "text", text: "There are seventeen." }],
      citations: { enabled: true },
    };
    const turn = [
      { role: "assistant", content: [{ type: "tool_use", id: "call_0", name: "WebFetch", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content: [found] }] },
    ];
    await served.post(PATH, { ...first, messages: [...first.messages, ...turn], stream: false }, headers);
    expect(lastChat()?.messages.at(-1)?.content).toBe("Foxes\nhttps://example.com\nThere are seventeen.\n");
  });

  test("tokens are counted of the same request", async () => {
    const { model, messages, system, tools, thinking, context_management } = first;
    const { status, json } = await served.post(
      "/v1/messages/count_tokens?beta=true",
      { model, messages, system, tools, thinking, context_management },
      headers,
    );
    expect([status, json.input_tokens]).toEqual([200, expect.any(Number)]);
  });

  test("a form by its older name is one", async () => {
    served.grammar.specs.length = 0;
    const schema = {
      type: "object",
      properties: { title: { type: "string" } },
      required: ["title"],
      additionalProperties: false,
    };
    await served.post(
      PATH,
      { ...first, tools: [], stream: false, output_format: { type: "json_schema", schema } },
      headers,
    );
    expect(served.grammar.specs).toEqual([{ kind: "schema", schema }]);
  });

  test.each([
    [
      "edits that remove something",
      { context_management: { edits: [{ type: "clear_tool_uses_20250919", keep: { type: "tool_uses", value: 3 } }] } },
      "context_management.edits[0].type",
    ],
    [
      "edits that remove thoughts",
      {
        context_management: {
          edits: [{ type: "clear_thinking_20251015", keep: { type: "thinking_turns", value: 1 } }],
        },
      },
      "context_management.edits[0].keep",
    ],
    [
      "an image",
      {
        messages: [
          { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "" } }] },
        ],
      },
      "messages[0].content[0].type",
    ],
    [
      "an image that a tool gave",
      {
        messages: [
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: "a", content: [{ type: "image", source: {} }] }],
          },
        ],
      },
      "messages[0].content[0].content[0].type",
    ],
    ["a form in another API's words", { response_format: { type: "json_object" } }, "response_format"],
  ])("rejects %s by name", async (_, fields, param) => {
    const { status, json } = await served.post(PATH, { ...first, ...fields }, headers);
    expect([status, json.type, json.error.type]).toEqual([400, "error", "invalid_request_error"]);
    expect(json.error.message).toContain(`[${param}]`);
  });
});

describe("Codex", () => {
  const PATH = "/v1/responses";
  const text = (role: string, words: string) => ({
    type: "message",
    id: `msg_${role}`,
    role,
    content: [{ type: "input_text", text: words }],
  });
  const exec = {
    type: "function",
    name: "exec_command",
    description: "Runs a command",
    strict: false,
    parameters: {
      type: "object",
      properties: { cmd: { type: "string" } },
      required: ["cmd"],
      additionalProperties: false,
    },
  };
  const first = {
    model: "gpt-5.4-codex",
    stream: true,
    input: [
      text("developer", "You are a coding agent."),
      text("developer", "<permissions instructions>"),
      text("user", "<environment_context>"),
      text("user", "What does note.txt say?"),
    ] as object[],
    tools: [
      exec,
      {
        type: "namespace",
        name: "multi_agent_v1",
        description: "Tools for sub-agents.",
        tools: [{ type: "function", name: "close_agent", description: "Closes one", parameters: { type: "object" } }],
      },
      { type: "web_search", external_web_access: false },
      {
        type: "custom",
        name: "apply_patch",
        description: "Edits files",
        format: { type: "grammar", syntax: "lark", definition: "start: x" },
      },
    ],
    tool_choice: "auto",
    parallel_tool_calls: true,
    reasoning: { summary: "auto" },
    store: false,
    include: ["reasoning.encrypted_content"],
    prompt_cache_key: "0",
    client_metadata: { session_id: "0" },
  };

  test("a turn: the question, a call, its result", async () => {
    served.model.script.answer = () => `<think>I look.</think>Let me see. [exec_command {"cmd":"cat note.txt"}]`;
    const { status, text: streamed } = await served.post(PATH, first);
    expect(status).toBe(200);
    expect(served.log.join("")).not.toContain("unknown fields");
    for (const skipped of ["namespace", "web_search", "custom"])
      expect(served.log.join("")).toContain(String.raw`a tool of type \"${skipped}\"`);
    expect(served.chat.conversations.at(-1)?.tools.map(({ name }) => name)).toEqual(["exec_command"]);
    const events = eventsOf(streamed);
    const { response } = events.at(-1);
    expect(events.at(-1).type).toBe("response.completed");
    expect(response.tools).toEqual([exec]);
    expect(response.output.map(({ type }: { type: string }) => type)).toEqual([
      "reasoning",
      "message",
      "function_call",
    ]);
    const [reasoning, message, call] = response.output;
    const result = {
      type: "function_call_output",
      id: "fco_1",
      call_id: "call_0",
      output: "Process exited with code 0\nOutput:\nseventeen foxes\n",
    };
    served.model.script.answer = () => "Seventeen foxes.";
    const second = await served.post(PATH, {
      ...first,
      input: [...first.input, { ...reasoning, status: undefined }, message, call, result],
    });
    expect(second.status).toBe(200);
    expect(served.chat.conversations.at(-1)?.messages.slice(-2)).toEqual([
      {
        role: "assistant",
        content: "Let me see. ",
        reasoning: "I look.",
        toolCalls: [{ id: "call_0", name: "exec_command", arguments: `{"cmd":"cat note.txt"}` }],
      },
      { role: "tool", content: result.output, toolCallId: "call_0" },
    ]);
  });

  test("rejects an image that a tool gave by name", async () => {
    const output = [{ type: "input_image", image_url: "data:image/png;base64," }];
    const { status, json } = await served.post(PATH, {
      ...first,
      input: [...first.input, { type: "function_call_output", call_id: "call_0", output }],
    });
    expect([status, json.error.param]).toEqual([400, "input[4].output[0].type"]);
  });
});
