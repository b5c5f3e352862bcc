// Calls of the SDK as options of a chat: every setting, the options of this provider, and warnings.

import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { chatCall } from "./chat-call.js";

type Settings = Omit<LanguageModelV4CallOptions, "prompt">;
const call = (settings: Settings = {}) =>
  chatCall({ prompt: [{ role: "user", content: [{ type: "text", text: "Who?" }] }], ...settings });
const engine = (options: Record<string, unknown>, settings: Settings = {}) =>
  call({ ...settings, providerOptions: { rocmforge: options as never } }).options;
const weather = { type: "function", name: "weather", inputSchema: { type: "object" } } as const;

describe("settings", () => {
  it("leaves everything that is not set to the engine", () => {
    expect(
      call({ toolChoice: { type: "auto" }, responseFormat: { type: "text" }, headers: { "user-agent": "ai" } }),
    ).toEqual({
      messages: [{ role: "user", content: "Who?" }],
      options: { toolChoice: "auto" },
      warnings: [],
    });
  });

  it("have the engine's names", () => {
    const { options, warnings } = call({
      maxOutputTokens: 7,
      temperature: 0,
      topP: 0.5,
      topK: 3,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      stopSequences: ["END"],
      seed: 5,
    });
    expect(options).toEqual({
      maxTokens: 7,
      temperature: 0,
      topP: 0.5,
      topK: 3,
      presencePenalty: 0.1,
      frequencyPenalty: 0.2,
      stop: ["END"],
      seed: 5,
    });
    expect(warnings).toEqual([]);
  });

  it("a reply as JSON follows the call's schema, or is any object", () => {
    const schema = { type: "array", items: { type: "string" } } as const;
    expect(call({ responseFormat: { type: "json", schema } }).options.schema).toEqual(schema);
    expect(call({ responseFormat: { type: "json" } }).options.schema).toEqual({ type: "object" });
  });

  it.each([
    [{ type: "none" }, "none"],
    [{ type: "required" }, "required"],
    [{ type: "tool", toolName: "weather" }, { name: "weather" }],
  ] as const)("offers functions, and chooses %o", (toolChoice, expected) => {
    const { options } = call({ tools: [{ ...weather, description: "The weather" }], toolChoice });
    expect(options).toEqual({
      tools: [{ name: "weather", description: "The weather", parameters: { type: "object" } }],
      toolChoice: expected,
    });
  });

  it("reasoning is a switch and an effort for the template", () => {
    expect(call({ reasoning: "provider-default" }).options).toEqual({});
    expect(call({ reasoning: "none" }).options).toEqual({
      reasoning: false,
      templateOptions: { reasoning_effort: "none" },
    });
    expect(call({ reasoning: "high" }).options).toEqual({
      reasoning: true,
      templateOptions: { reasoning_effort: "high" },
    });
  });
});

describe("providerOptions.rocmforge", () => {
  it("reach the engine, and take precedence over the SDK's reasoning", () => {
    expect(
      engine(
        {
          minP: 0.1,
          parallelToolCalls: false,
          timeoutMs: 50,
          regex: "a+",
          logitBias: { 5: -1 },
          reasoningEffort: "low",
          templateOptions: { date: "today" },
        },
        { reasoning: "none" },
      ),
    ).toEqual({
      minP: 0.1,
      parallelToolCalls: false,
      timeoutMs: 50,
      regex: "a+",
      logitBias: new Map([[5, -1]]),
      reasoning: true,
      templateOptions: { reasoning_effort: "low", date: "today" },
    });
    expect(engine({ reasoning: false }, { reasoning: "high" })).toMatchObject({ reasoning: false });
  });

  it("ignores the options of other providers", () => {
    expect(call({ providerOptions: { openai: { store: true } } }).options).toEqual({});
  });

  it.each([
    [{ minp: 1 }, "OPTION_UNKNOWN", /did you mean "minP"/],
    [{ reasoning: "high" }, "OPTION_VALUE", /\[providerOptions\.rocmforge\] reasoning: expected true or false/],
    [{ reasoningEffort: "much" }, "OPTION_VALUE", /one of none, minimal/],
    [{ logitBias: [1] }, "OPTION_VALUE", /biases by token id/],
    [{ templateOptions: "x" }, "OPTION_VALUE", /an object/],
  ])("rejects %o", (options, code, message) => {
    expect(() => engine(options)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) as string }) as Error,
    );
  });
});

describe("warnings", () => {
  const features = (settings: Settings) =>
    call(settings).warnings.map((warning) => (warning.type === "unsupported" ? warning.feature : warning.type));

  it("name tools of providers, which the model is not offered", () => {
    const search = { type: "provider", id: "other.search", name: "search", args: {} } as const;
    expect(call({ tools: [search, weather] }).options.tools).toMatchObject([{ name: "weather" }]);
    expect(features({ tools: [search, weather] })).toEqual(["provider-defined tool other.search"]);
  });

  it("name strict tools only if nothing holds their calls to the schema", () => {
    const tools = [{ ...weather, strict: true }];
    expect(features({ tools })).toEqual(["strict tools"]);
    expect(features({ tools, toolChoice: { type: "required" } })).toEqual([]);
    expect(features({ tools, responseFormat: { type: "json" } })).toEqual([]);
  });

  it("name examples of inputs and raw chunks", () => {
    expect(features({ tools: [{ ...weather, inputExamples: [{ input: {} }] }] })).toEqual(["inputExamples of tools"]);
    expect(features({ includeRawChunks: true })).toEqual(["includeRawChunks"]);
    expect(features({ includeRawChunks: false })).toEqual([]);
  });
});
