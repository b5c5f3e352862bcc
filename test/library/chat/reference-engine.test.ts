// Ordinary chats give the same text as the engine that was used before, the library's own interpreter: over the templates
// of every family, and so the same tokens (see control-tokens.test.ts).

import * as library from "@huggingface/jinja";
import { describe, expect, test } from "vitest";
import { rendered } from "../../../src/chat/template/jinja/testing/rendered.js";
import { FAMILIES } from "./family-templates.js";

interface Engine {
  readonly Environment: new () => { set(name: string, value: unknown): unknown };
  readonly Interpreter: new (environment: unknown) => { run(program: unknown): { readonly value: string } };
  parse(tokens: unknown): unknown;
  tokenize(template: string, options: unknown): unknown;
}

const { Environment, Interpreter, parse, tokenize } = library as unknown as Engine;

function before(template: string, variables: Readonly<Record<string, unknown>>): string {
  const environment = new Environment();
  for (const [name, value] of Object.entries({
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    ...variables,
  }))
    environment.set(name, value);
  return new Interpreter(environment).run(parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }))).value;
}

const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "Says the weather.",
    parameters: { type: "object", properties: { city: { type: "string", description: "where" } } },
  },
};
const call = {
  id: "abcdefghi",
  type: "function",
  function: { name: "weather", arguments: { city: "Bern", list: ["a", "b"], inner: { deep: "é <b>" } } },
};
const common = { bos_token: "<s>", eos_token: "</s>", add_generation_prompt: true };
const system = { role: "system", content: " Be brief. " };
const user = { role: "user", content: '  What\'s <b> & "that"?\n\nIt | is > 5 ' };

const CHATS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "one message": { messages: [user] },
  "a system": { messages: [system, user] },
  "several turns": {
    messages: [
      user,
      { role: "assistant", content: "<think>\nhm\n</think>\n\nThat." },
      user,
      { role: "assistant", content: "This.", reasoning_content: "so\n" },
      { role: "user", content: "ok" },
    ],
  },
  "a call and its result": {
    messages: [
      user,
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", content: "Rain.", tool_call_id: "abcdefghi", name: "weather" },
    ],
    tools: [weather],
  },
};

function outcomeOf(render: () => string): { readonly text: string | undefined } {
  try {
    return { text: render() };
  } catch {
    return { text: undefined };
  }
}

for (const [name, { template, tools }] of Object.entries(FAMILIES)) {
  // The last one uses constructs that that engine does not support.
  if (template === undefined || name === "parts and pieces") continue;
  describe(`${name}`, () => {
    for (const [chat, variables] of Object.entries(CHATS)) {
      if (!tools && "tools" in variables) continue;
      test(chat, () => {
        const all = { ...common, ...variables };
        // Refused by both, or the same for both.
        expect(outcomeOf(() => rendered(template, all).value)).toStrictEqual(outcomeOf(() => before(template, all)));
      });
    }
  });
}
