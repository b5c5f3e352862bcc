// Detects what a template supports: each probe renders a small chat, and its text shows whether the template used the
// input. Templates do not declare it, and would silently drop what they do not support.

import { contentParts, toolVariables } from "./template-variables.js";
import type { TemplateRunner, TemplateVariables } from "./template-runner.js";

/** What a template supports. */
export interface TemplateCapabilities {
  /** Whether it renders messages of the role "system". */
  readonly system: boolean;
  /** Whether content has to be a list of parts. */
  readonly parts: boolean;
  readonly tools: boolean;
  /** How it takes the arguments of an assistant's call; undefined if it renders no calls. */
  readonly calls: "object" | "text" | undefined;
  /** The content of an assistant's message with calls and no text. */
  readonly noContent: "" | null;
  /** Whether it renders messages of the role "tool". */
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

/** Detects what a template supports. */
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
    // If it needs parts, the probes with plain text tell nothing: such templates are recent and support everything.
    system: needsParts || has(system, WORDS.system),
    tools: needsParts || has(tooled, WORDS.tool),
    calls,
    noContent: (calls === "text" ? leavesOutNothing(text, textAlone) : leavesOutNothing(object, objectAlone))
      ? null
      : "",
    results: needsParts || has(object, WORDS.result) || has(text, WORDS.result),
  };
}

/**
 * Some templates write a message for the text, even for an empty one, unless the content is null; others then write
 * "None".
 */
function leavesOutNothing(withEmpty: string | undefined, withNull: string | undefined): boolean {
  return (
    withEmpty !== undefined &&
    withNull !== undefined &&
    withNull.length < withEmpty.length &&
    withNull.includes(WORDS.value)
  );
}
