// Whether and how much a model thinks, as template variables: the common `enable_thinking` and `thinking`, and what some
// families have instead.

import type { CallConvention } from "../output/conventions.js";
import type { TemplateVariables } from "./template-runner.js";

/** The efforts that harmony knows, by the efforts of the APIs; a model of this format always thinks. */
const HARMONY_EFFORTS: Readonly<Record<string, string>> = {
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

/** The caller's options with the variables that say whether the model thinks; undefined leaves that to the template. */
export function thinkingVariables(
  template: string,
  convention: CallConvention,
  thinking: boolean | undefined,
  options: TemplateVariables,
): TemplateVariables {
  const variables = {
    ...options,
    ...(thinking === undefined ? {} : { enable_thinking: thinking, thinking }),
    ...(thinking === false && template.includes("thinking_budget") ? { thinking_budget: 0 } : {}),
  };
  if (convention !== "harmony") return variables;
  const effort = options["reasoning_effort"] ?? (thinking === false ? "none" : undefined);
  if (typeof effort !== "string") return variables;
  return { ...variables, reasoning_effort: HARMONY_EFFORTS[effort] ?? effort };
}
