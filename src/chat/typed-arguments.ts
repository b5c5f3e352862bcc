// Arguments that a model wrote as bare text, key by key: what each value is, the tool's schema says. Where it says
// nothing, a value that reads as JSON is that.

import type { ChatTool } from "./message.js";

export function typedArguments(given: readonly (readonly [key: string, value: string])[], tool: ChatTool | undefined): Readonly<Record<string, unknown>> {
  const properties = record(tool?.parameters["properties"]);
  // No key of a model may reach a prototype.
  const typed = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of given) {
    const schema = properties !== undefined && Object.hasOwn(properties, key) ? record(properties[key]) : undefined;
    typed[key] = isText(schema) ? value : readValue(value);
  }
  return typed;
}

function isText(schema: Readonly<Record<string, unknown>> | undefined): boolean {
  if (schema === undefined) return false;
  if (schema["type"] === "string") return true;
  const choices = schema["enum"];
  return schema["type"] === undefined && Array.isArray(choices) && choices.every((choice) => typeof choice === "string");
}

function readValue(value: string): unknown {
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : undefined;
}
