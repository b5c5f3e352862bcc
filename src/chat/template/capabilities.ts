// What a template can take, found out by trying: each probe renders a small chat, and what comes out of it tells whether
// the template looked. Templates do not say it, and what they cannot take would vanish without a word.

import { contentParts, toolVariables } from "./template-variables.js";
import type { TemplateRunner, TemplateVariables } from "./template-runner.js";

export interface TemplateCapabilities {
  /** Messages of the role "system". */
  readonly system: boolean;
  /** Content has to be a list of parts. */
  readonly parts: boolean;
  readonly tools: boolean;
  /** How it takes the arguments of an assistant's call, if it takes calls at all. */
  readonly calls: "object" | "text" | undefined;
  /** What an assistant's message with calls and no words has for content. */
  readonly noContent: "" | null;
  /** Messages of the role "tool". */
  readonly results: boolean;
}

const WORDS = {
  system: "probe-system",
  user: "probe-user",
  tool: "probe_tool",
  value: "probe-value",
  result: "probe-result",
  id: "probe0001",
} as const;

export async function findCapabilities(
  runner: TemplateRunner,
  template: string,
  tokens: TemplateVariables,
): Promise<TemplateCapabilities> {
  const common = { ...tokens, add_generation_prompt: true };
  const user = { role: "user", content: WORDS.user };
  const tools = [toolVariables({ name: WORDS.tool, description: "", parameters: { type: "object", properties: {} } })];
  const calling = (given: unknown, content: "" | null = ""): TemplateVariables => ({
    ...common,
    tools,
    messages: [
      user,
      {
        role: "assistant",
        content,
        tool_calls: [{ id: WORDS.id, type: "function", function: { name: WORDS.tool, arguments: given } }],
      },
      { role: "tool", content: WORDS.result, tool_call_id: WORDS.id, name: WORDS.tool },
    ],
  });
  const given = { key: WORDS.value };
  const [plain, parts, system, tooled, object, text, objectAlone, textAlone] = await runner.tryAll(template, [
    { ...common, messages: [user] },
    { ...common, messages: [{ role: "user", content: contentParts(WORDS.user) }] },
    { ...common, messages: [{ role: "system", content: WORDS.system }, user] },
    { ...common, messages: [user], tools },
    calling(given),
    calling(JSON.stringify(given)),
    calling(given, null),
    calling(JSON.stringify(given), null),
  ]);
  const has = (rendered: string | undefined, word: string): boolean => rendered?.includes(word) === true;
  const needsParts = !has(plain, WORDS.user) && has(parts, WORDS.user);
  const calls = has(object, WORDS.value)
    ? "object"
    : has(text, WORDS.value)
      ? "text"
      : needsParts
        ? "object"
        : undefined;
  return {
    parts: needsParts,
    // Where it needs parts, the probes with texts say nothing: such templates are young and take everything.
    system: needsParts || has(system, WORDS.system),
    tools: needsParts || has(tooled, WORDS.tool),
    calls,
    noContent: (calls === "text" ? leavesOutNothing(text, textAlone) : leavesOutNothing(object, objectAlone))
      ? null
      : "",
    results: needsParts || has(object, WORDS.result) || has(text, WORDS.result),
  };
}

/** Some templates write a message of its own for words, even for none, unless the content is null; others write "None". */
function leavesOutNothing(withEmpty: string | undefined, withNull: string | undefined): boolean {
  return (
    withEmpty !== undefined &&
    withNull !== undefined &&
    withNull.length < withEmpty.length &&
    withNull.includes(WORDS.value)
  );
}
