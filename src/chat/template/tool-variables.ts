// The tools of a chat as template variables.

import type { ChatTool } from "../message.js";

/** SmolLM3's name for tools that are called in JSON, which it tells from those that are called in Python. */
const XML_TOOLS = "xml_tools";

/** A tool as a template variable. */
export function toolVariables({ name, description, parameters }: ChatTool): Readonly<Record<string, unknown>> {
  return { type: "function", function: { name, ...(description === undefined ? {} : { description }), parameters } };
}

/** The variables by which a template takes tools; none if there are no tools. */
export function toolsVariables(template: string, tools: readonly ChatTool[]): Readonly<Record<string, unknown>> {
  if (tools.length === 0) return {};
  const given = tools.map(toolVariables);
  return { tools: given, ...(template.includes(XML_TOOLS) ? { [XML_TOOLS]: given } : {}) };
}
