// The tools of a chat as template variables, in the form that a template takes, and as text for templates that take none.

import { type CallConvention, conventionOf } from "../output/conventions.js";
import type { ChatTool } from "../message.js";

/** How a template takes tools. */
export interface ToolForm {
  /** Whether a tool is `{ type: "function", function: { name, … } }`, as in OpenAI's API, or the inner object alone. */
  readonly wrapped: boolean;
  /** Whether every tool needs a description, if only an empty one. */
  readonly described: boolean;
}

/** The forms, the most common one first. */
export const TOOL_FORMS: readonly ToolForm[] = [
  { wrapped: true, described: false },
  { wrapped: true, described: true },
  { wrapped: false, described: false },
  { wrapped: false, described: true },
];

/** SmolLM3's name for tools that are called in JSON, which it tells from those that are called in Python. */
const XML_TOOLS = "xml_tools";

/** The variables by which a template takes tools; none if there are no tools. */
export function toolsVariables(
  template: string,
  tools: readonly ChatTool[],
  form: ToolForm = TOOL_FORMS[0] as ToolForm,
): Readonly<Record<string, unknown>> {
  if (tools.length === 0) return {};
  const given = tools.map((tool) => toolVariables(tool, form));
  return { tools: given, ...(template.includes(XML_TOOLS) ? { [XML_TOOLS]: given } : {}) };
}

function toolVariables({ name, description, parameters }: ChatTool, { wrapped, described }: ToolForm): object {
  const shown = description ?? (described ? "" : undefined);
  const own = { name, ...(shown === undefined ? {} : { description: shown }), parameters };
  return wrapped ? { type: "function", function: own } : own;
}

/** What a model is told about tools if its template says nothing: what they are, and how the convention writes a call. */
export function toolsAdvice(tools: readonly ChatTool[], convention: CallConvention): string {
  const list = tools
    .map((tool) => JSON.stringify({ name: tool.name, description: tool.description, parameters: tool.parameters }))
    .join("\n");
  return `You can call these functions:\n${list}\nTo call one, ${callAdvice(convention)}`;
}

function callAdvice(convention: CallConvention): string {
  if (convention === "bare-json") return 'answer with nothing but JSON: {"name": <name>, "arguments": <arguments>}';
  const { prefix, suffix, notation } = conventionOf(convention).spell("<name>", 0);
  const shown = prefix.replace('"<name>"', "<name>");
  switch (notation?.kind) {
    case undefined:
      return `write: ${shown}<arguments as JSON>${suffix}`;
    case "fields":
      return `write, with a field for each argument: ${shown}${notation.open}<key>${notation.text}<value>${notation.close}${suffix}`;
    case "python":
      return `write: ${shown}<key>=<value>, …${suffix}`;
    case "map":
      return `write: ${shown}{<key>:${notation.quote}<text>${notation.quote},<key>:<other value>}${suffix}`;
    default:
      return notation satisfies never;
  }
}
