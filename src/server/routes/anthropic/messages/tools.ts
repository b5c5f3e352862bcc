// The tools of /v1/messages: the request's list, and how messages change it. Deferred tools are hidden until a message or a
// tool result references them; messages of the role "system" add and remove tools. The prompt shows the tools that are
// callable at the end of the conversation. Invariant: tools that the provider's service would run are skipped.

import { z } from "zod";
import type { ChatTool } from "../../../../chat/message.js";
import { anyObject, ignored } from "../../../schema/fields.js";
import type { ServerLimits } from "../../../http/limits.js";
import { listOf } from "../../../schema/list-schema.js";
import { skippedTool, toolName, toolOf } from "../../../schema/tool-fields.js";

const CLIENT_TOOL = "custom";
/** The service's own search over deferred tools. */
const TOOL_SEARCH = /^tool_search_tool/;

const clientTool = z.object({
  type: z.literal(CLIENT_TOOL).nullish(),
  name: toolName,
  description: z.string().nullish(),
  input_schema: anyObject,
  cache_control: ignored,
  strict: z.boolean().nullish(),
  input_examples: ignored,
  eager_input_streaming: ignored,
  allowed_callers: ignored,
  defer_loading: z.boolean().nullish(),
});
const anyTool = z.union([clientTool, skippedTool(CLIENT_TOOL)]);

type ClientTool = z.infer<typeof clientTool>;
type AnyTool = z.infer<typeof anyTool>;

/** The schema of a request's tools. */
export function toolList(limits: ServerLimits) {
  return listOf(anyTool, limits.tools);
}

/** A tool by its name. */
const namedTool = z.object({ type: z.literal("tool_reference"), name: toolName });
const definedTool = z.object({ type: z.literal("tool_definition"), definition: anyTool });
/** Content blocks of "system" messages that add or remove tools. */
export const TOOL_CHANGES = [
  z.object({
    type: z.literal("tool_addition"),
    tool: z.discriminatedUnion("type", [namedTool, definedTool]),
    cache_control: ignored,
  }),
  z.object({ type: z.literal("tool_removal"), tool: namedTool, cache_control: ignored }),
] as const;

/** Whether the client runs the tool, and not the provider's service. */
export function isClientTool(tool: AnyTool): tool is ClientTool {
  return tool.type === undefined || tool.type === null || tool.type === CLIENT_TOOL;
}

type Change = z.infer<(typeof TOOL_CHANGES)[number]>;

interface Block {
  readonly type: string;
}

interface ToolResult extends Block {
  readonly type: "tool_result";
  readonly content?: string | readonly { readonly type: string; readonly tool_name?: unknown }[] | null | undefined;
}

interface ToolsAndMessages {
  readonly tools?: readonly AnyTool[] | undefined;
  readonly messages: readonly { readonly content: string | readonly Block[] }[];
}

/** The tools that are callable at the end of the conversation. */
export function messageTools({ tools = [], messages }: ToolsAndMessages): readonly ChatTool[] {
  const known = new Map(tools.filter(isClientTool).map((tool) => [tool.name, tool]));
  // The service's search is skipped here, so without this deferred tools could never be found.
  const defersTools = !tools.some((tool) => !isClientTool(tool) && TOOL_SEARCH.test(tool.type));
  const shown = new Set(
    [...known.values()]
      .filter(({ defer_loading: deferred }) => deferred !== true || !defersTools)
      .map(({ name }) => name),
  );
  for (const { content } of messages) {
    if (typeof content !== "string") for (const block of content) applyChange(block, known, shown);
  }
  return [...known.values()]
    .filter(({ name }) => shown.has(name))
    .map(({ name, description, input_schema: parameters }) => toolOf({ name, description, parameters }));
}

function applyChange(block: Block, known: Map<string, ClientTool>, shown: Set<string>): void {
  if (isResult(block)) {
    if (typeof block.content === "string") return;
    for (const { type, tool_name: name } of block.content ?? [])
      if (type === "tool_reference" && typeof name === "string") shown.add(name);
  } else if (isChange(block)) {
    if (block.type === "tool_removal") shown.delete(block.tool.name);
    else if (block.tool.type === "tool_reference") shown.add(block.tool.name);
    else addDefinition(block.tool.definition, known, shown);
  }
}

function addDefinition(definition: AnyTool, known: Map<string, ClientTool>, shown: Set<string>): void {
  if (!isClientTool(definition)) return;
  known.set(definition.name, definition);
  shown.add(definition.name);
}

function isResult(block: Block): block is ToolResult {
  return block.type === "tool_result";
}

function isChange(block: Block): block is Change {
  return block.type === "tool_addition" || block.type === "tool_removal";
}
