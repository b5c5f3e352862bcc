// Tools and thinking, as the chats of all APIs name them.

import { z } from "zod";
import type { ChatTool, ToolChoice } from "../chat/message.js";

export const toolName = z.string().regex(/^[a-zA-Z0-9_.:-]{1,128}$/, "expected a name of 1 to 128 letters, digits, _ . : or -");
/** How hard a model shall think; templates that know the word are told it. */
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

/** Where nothing is said. */
export function defaultToolChoice(tools: readonly ChatTool[]): ToolChoice {
  return { kind: tools.length > 0 ? "auto" : "none" };
}
