// A call in the spelling of a form, as a model that is held to the form would write it.

import type { ToolCallForm } from "../output/call-form.js";

type Arguments = Readonly<Record<string, unknown>>;

/** The text of a call with these arguments. */
export function spelledCall({ prefix, suffix, notation }: Omit<ToolCallForm, "name">, given: Arguments): string {
  const entries = Object.entries(given);
  switch (notation?.kind) {
    case undefined:
      return `${prefix}${JSON.stringify(given)}${suffix}`;
    case "fields": {
      const { open, text, json, close } = notation;
      const fields = entries.map(([key, value]) =>
        typeof value === "string"
          ? `${open}${key}${text}${value}${close}`
          : `${open}${key}${json}${JSON.stringify(value)}${close}`,
      );
      return `${prefix}${fields.join("")}${suffix}`;
    }
    case "python":
      return `${prefix}${entries.map(([key, value]) => `${key}=${notation.words === "json" ? JSON.stringify(value) : pythonText(value)}`).join(", ")}${suffix}`;
    case "map":
      return `${prefix}${mapText(given, notation.quote)}${suffix}`;
    default:
      return notation satisfies never;
  }
}

function pythonText(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonText).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}: ${pythonText(inner)}`)
    .join(", ")}}`;
}

function mapText(value: unknown, quote: string): string {
  if (typeof value === "string") return `${quote}${value}${quote}`;
  if (Array.isArray(value)) return `[${value.map((item) => mapText(item, quote)).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${key}:${mapText(inner, quote)}`)
    .join(",")}}`;
}
