// Request fields for tools and reasoning that the chat APIs share.

import { z } from "zod";
import type { ChatTool, ToolChoice } from "../../chat/message.js";
import { refuseField } from "../http/request-error.js";

/** The name of a tool. */
export const toolName = z
  .string()
  .regex(/^[a-zA-Z0-9_.:-]{1,128}$/, "expected a name of 1 to 128 letters, digits, _ . : or -");
/** How much the model reasons; passed on to templates that support it. */
export const reasoningEffort = z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

interface GivenTool {
  readonly name: string;
  readonly description?: string | null | undefined;
  readonly parameters?: Readonly<Record<string, unknown>> | null | undefined;
}

/** A tool without a schema takes no arguments. */
export function toolOf({ name, description, parameters }: GivenTool): ChatTool {
  return {
    name,
    ...(typeof description === "string" ? { description } : {}),
    parameters: parameters ?? { type: "object", properties: {} },
  };
}

/** The tool choice of a request that has none. */
export function defaultToolChoice(tools: readonly ChatTool[]): ToolChoice {
  return { kind: tools.length > 0 ? "auto" : "none" };
}

const MAX_TYPE_CHARACTERS = 128;

/**
 * A tool whose type is not in `own`: one that the provider's service runs, such as a web search, or an unsupported kind of
 * call. It is skipped, so that clients which always send such tools can use their other tools.
 */
export function skippedTool(...own: readonly string[]) {
  const type = z
    .string()
    .max(MAX_TYPE_CHARACTERS)
    .refine((value) => !own.includes(value), { error: "is not the type of a tool that is skipped", abort: true });
  return z.looseObject({ type });
}

/** Describes skipped tools for the log. */
export function describeSkipped(
  tools: readonly { readonly type?: unknown; readonly name?: unknown }[],
): readonly string[] {
  return tools.map(
    ({ type, name }) =>
      `a tool of type ${JSON.stringify(type)}${typeof name === "string" ? ` named ${JSON.stringify(name.slice(0, MAX_TYPE_CHARACTERS))}` : ""} was skipped`,
  );
}

/** A tool choice that lists the callable tools. */
interface AllowedTools {
  readonly mode: "auto" | "required";
  readonly names: readonly string[];
}

/** The tools of a prompt, and the choice between them. */
export interface ChosenTools {
  readonly tools: readonly ChatTool[];
  readonly toolChoice: ToolChoice;
}

/** Removes tools that may not be called from the prompt. */
export function allowedTools(tools: readonly ChatTool[], { mode, names }: AllowedTools): ChosenTools {
  for (const name of names) {
    if (!tools.some((tool) => tool.name === name))
      refuseField("tool_choice", "names of the tools that are given", JSON.stringify(name));
  }
  const allowed = tools.filter(({ name }) => names.includes(name));
  return { tools: allowed, toolChoice: mode === "auto" ? defaultToolChoice(allowed) : { kind: mode } };
}
