// The tools of a chat as template variables, in the form that a template takes, and as text for templates that take none.

import { type CallConvention, conventionOf } from "../output/conventions.js";
import type { ChatTool } from "../message.js";
import { isPlainObject } from "../../plain-object.js";

/** How a template takes tools. */
export interface ToolForm {
  /** Whether a tool is `{ type: "function", function: { name, … } }`, as in OpenAI's API, or the inner object alone. */
  readonly wrapped: boolean;
  /** Whether every tool and every parameter needs a description, if only an empty one. */
  readonly described: boolean;
  /** Whether the tools are a field of the system message, as JSON text, and not a variable. */
  readonly inSystem?: true;
}

/** The forms, the most common one first. */
export const TOOL_FORMS: readonly ToolForm[] = [
  { wrapped: true, described: false },
  { wrapped: true, described: true },
  { wrapped: false, described: false },
  { wrapped: false, described: true },
  { wrapped: false, described: false, inSystem: true },
];

/** SmolLM3's name for tools that are called in JSON, which it tells from those that are called in Python. */
const XML_TOOLS = "xml_tools";

/** Transformers gives templates None if there are no tools, and some ask for that (OLMo 3). */
export const NO_TOOLS = { tools: null } as const;

/** The variables by which a template takes tools; none if there are no tools. */
export function toolsVariables(
  template: string,
  tools: readonly ChatTool[],
  form: ToolForm = TOOL_FORMS[0] as ToolForm,
): Readonly<Record<string, unknown>> {
  if (tools.length === 0 || form.inSystem === true) return {};
  const given = tools.map((tool) => toolVariables(tool, form));
  return { tools: given, ...(template.includes(XML_TOOLS) ? { [XML_TOOLS]: given } : {}) };
}

/** The tools as a field of the system message. */
export function toolsField(tools: readonly ChatTool[], form: ToolForm): { readonly tools: string } {
  return { tools: JSON.stringify(tools.map((tool) => toolVariables(tool, form))) };
}

function toolVariables({ name, description, parameters }: ChatTool, { wrapped, described }: ToolForm): object {
  const shown = description ?? (described ? "" : undefined);
  const own = {
    name,
    ...(shown === undefined ? {} : { description: shown }),
    parameters: described ? withDescriptions(parameters) : parameters,
  };
  return wrapped ? { type: "function", function: own } : own;
}

function withDescriptions(parameters: ChatTool["parameters"]): ChatTool["parameters"] {
  const { properties } = parameters;
  if (!isPlainObject(properties)) return parameters;
  const described = Object.entries(properties).map(([name, schema]) => [
    name,
    isPlainObject(schema) ? { description: "", ...schema } : schema,
  ]);
  return { ...parameters, properties: Object.fromEntries(described) as unknown };
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
