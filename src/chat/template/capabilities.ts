// Detects what a template supports: each probe renders a small chat, and its text shows whether the template used the
// input. Templates do not declare it, and would silently drop what they do not support.

import { contentParts } from "./template-variables.js";
import type { TemplateRunner, TemplateVariables } from "./template-runner.js";
import { NO_TOOLS, TOOL_FORMS, type ToolForm, toolsField, toolsVariables } from "./tool-variables.js";

/** How a template takes the reasoning of an earlier reply: by the name of a field, or as a part of the content. */
export type ReasoningForm = "reasoning_content" | "thinking" | "reasoning" | "part";

/** What a template supports. */
export interface TemplateCapabilities {
  /** Whether it renders messages of the role "system". */
  readonly system: boolean;
  /** Whether content has to be a list of parts. */
  readonly parts: boolean;
  /** How it takes tools; undefined if it does not show them. */
  readonly tools: ToolForm | undefined;
  /** Whether it takes None for no tools, as Transformers gives it; a template for chats with tools may not. */
  readonly takesNoTools: boolean;
  /** How it takes the arguments of an assistant's call; undefined if it renders no calls. */
  readonly calls: "object" | "text" | undefined;
  /** The content of an assistant's message with calls and no text. */
  readonly noContent: "" | null;
  /** Whether it renders all calls of one message. */
  readonly parallelCalls: boolean;
  /** How it takes results: messages of the role "tool", a field of the message with the calls, or not at all. */
  readonly results: "messages" | "field" | undefined;
  readonly reasoning: ReasoningForm;
}

const WORDS = {
  system: "probe-system",
  user: "probe-user",
  tool: "probe_tool",
  value: "probe-value",
  result: "probe-result",
  id: "probe0001",
  secondId: "probe0002",
  second: "probe-second",
  reasoning_content: "probe-reasoning-content",
  thinking: "probe-thinking",
  reasoning: "probe-own-reasoning",
} as const;

const TOOL = { name: WORDS.tool, parameters: { type: "object", properties: { key: { type: "string" } } } } as const;

const REASONING_FIELDS = ["reasoning_content", "thinking", "reasoning"] as const satisfies ReasoningForm[];

/** Detects what a template supports. */
export async function findCapabilities(
  runner: TemplateRunner,
  template: string,
  tokens: TemplateVariables,
): Promise<TemplateCapabilities> {
  const user = { role: "user", content: WORDS.user };
  const partedUser = { role: "user", content: contentParts(WORDS.user) };
  const takesNoTools = await prefersNone(runner, template, {
    ...tokens,
    add_generation_prompt: true,
    messages: [user],
  });
  const common = { ...tokens, ...(takesNoTools ? NO_TOOLS : {}), add_generation_prompt: true };
  const [plain, parts, system, partedSystem, ...tooled] = await runner.tryAll(template, [
    { ...common, messages: [user] },
    { ...common, messages: [partedUser] },
    { ...common, messages: [{ role: "system", content: WORDS.system }, user] },
    { ...common, messages: [{ role: "system", content: contentParts(WORDS.system) }, partedUser] },
    ...TOOL_FORMS.map((form) => ({
      ...common,
      messages: form.inSystem === true ? [{ role: "system", content: "", ...toolsField([TOOL], form) }, user] : [user],
      ...toolsVariables(template, [TOOL], form),
    })),
  ]);
  const needsParts = !has(plain, WORDS.user) && has(parts, WORDS.user);
  const toolForm = TOOL_FORMS.find((_, index) => has(tooled[index], WORDS.tool));
  const tools = toolsVariables(template, [{ ...TOOL, description: "" }], toolForm);
  const callOf = (id: string, given: unknown): object => ({
    id,
    type: "function",
    function: { name: WORDS.tool, arguments: given },
  });
  const calling = (given: unknown, more: object = {}, second?: unknown): TemplateVariables => ({
    ...common,
    ...tools,
    messages: [
      user,
      {
        role: "assistant",
        content: "",
        tool_calls: [callOf(WORDS.id, given), ...(second === undefined ? [] : [callOf(WORDS.secondId, second)])],
        ...more,
      },
      { role: "tool", content: WORDS.result, tool_call_id: WORDS.id, name: WORDS.tool },
    ],
  });
  const [object, otherObject] = [{ key: WORDS.value }, { key: WORDS.second }];
  const [text, otherText] = [JSON.stringify(object), JSON.stringify(otherObject)];
  const fields = Object.fromEntries(REASONING_FIELDS.map((name) => [name, WORDS[name]]));
  const parted = { content: [{ type: "thinking", thinking: WORDS.thinking }, ...contentParts(WORDS.reasoning)] };
  const responses = { tool_responses: [{ name: WORDS.tool, response: { value: WORDS.result } }] };
  const [objects, texts, ...further] = await runner.tryAll(template, [
    calling(object),
    calling(text),
    // The same questions for both forms of arguments, of which the template takes one.
    calling(object, { content: null }),
    calling(object, {}, otherObject),
    calling(object, fields),
    calling(object, parted),
    calling(text, { content: null }),
    calling(text, {}, otherText),
    calling(text, fields),
    calling(text, parted),
    { ...common, ...tools, messages: [user, { role: "assistant", content: "", ...responses }] },
  ]);
  const calls = has(objects, WORDS.value)
    ? "object"
    : has(texts, WORDS.value)
      ? "text"
      : needsParts
        ? "object"
        : undefined;
  const [alone, pair, thoughts, partedThoughts] = calls === "text" ? further.slice(4, 8) : further.slice(0, 4);
  const called = calls === "text" ? texts : objects;
  return {
    parts: needsParts,
    // If it needs parts, the probes with plain text tell nothing: such templates are recent and support most things.
    system: has(needsParts ? partedSystem : system, WORDS.system),
    tools: toolForm ?? (needsParts ? TOOL_FORMS[0] : undefined),
    takesNoTools,
    calls,
    noContent: leavesOutNothing(called, alone) ? null : "",
    parallelCalls: rendersBoth(called, pair),
    results: resultForm(template, [objects, texts], further[8]) ?? (needsParts ? "messages" : undefined),
    reasoning:
      REASONING_FIELDS.find((name) => has(thoughts, WORDS[name])) ??
      (takesParts(partedThoughts) ? "part" : "reasoning_content"),
  };
}

async function prefersNone(runner: TemplateRunner, template: string, variables: TemplateVariables): Promise<boolean> {
  const [withNone, without] = await runner.tryAll(template, [{ ...variables, ...NO_TOOLS }, variables]);
  return withNone !== undefined || without === undefined;
}

/** Whether two calls of a message are rendered; Llama's templates refuse them, and harmony's writes the first. */
function rendersBoth(single: string | undefined, pair: string | undefined): boolean {
  if (pair === undefined) return single === undefined;
  return has(pair, WORDS.second) || !has(pair, WORDS.value);
}

/** Whether a template writes the thought and the text of a content in parts, and not the list as such. */
function takesParts(rendered: string | undefined): boolean {
  return has(rendered, WORDS.thinking) && has(rendered, WORDS.reasoning) && !/["']type["']/.test(rendered ?? "");
}

function has(rendered: string | undefined, word: string): boolean {
  return rendered?.includes(word) === true;
}

/** Some templates write results of a field in their own way, and messages of the role "tool" as any other message. */
function resultForm(
  template: string,
  messages: readonly (string | undefined)[],
  field: string | undefined,
): TemplateCapabilities["results"] {
  const shown = messages.find((rendered) => has(rendered, WORDS.result));
  if (template.includes("tool_responses") && has(field, WORDS.result)) {
    const mark = `response:${WORDS.tool}`;
    if (has(field, mark) && !has(shown, mark)) return "field";
  }
  return shown === undefined ? undefined : "messages";
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
