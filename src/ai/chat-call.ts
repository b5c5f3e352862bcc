// One call of the SDK as a chat: messages, options, and warnings about settings that have no effect here.

import type { LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider";
import type { ChatMessage } from "../chat/message.js";
import type { ChatOptions, Tool, ToolChoiceOption } from "../model/chat-options.js";
import type { JsonSchema } from "../model/response-schema.js";
import { definedOptions } from "../options.js";
import { engineOptions } from "./language-model-options.js";
import { promptMessages } from "./prompt.js";

/** What `model.chat` is called with, and the warnings of the call. */
export interface ChatCall {
  readonly messages: readonly ChatMessage[];
  readonly options: ChatOptions<unknown>;
  readonly warnings: SharedV4Warning[];
}

/** The schema of a reply that has to be JSON, if the call has no schema of its own. */
const ANY_OBJECT: JsonSchema = { type: "object" };

/** Translates a call; throws for a prompt that the model cannot read and for options that do not exist. */
export function chatCall(call: LanguageModelV4CallOptions): ChatCall {
  const { messages, warnings } = promptMessages(call.prompt);
  const tools = functionTools(call);
  const options = definedOptions({
    maxTokens: call.maxOutputTokens,
    temperature: call.temperature,
    topP: call.topP,
    topK: call.topK,
    presencePenalty: call.presencePenalty,
    frequencyPenalty: call.frequencyPenalty,
    stop: call.stopSequences,
    seed: call.seed,
    schema: replySchema(call.responseFormat),
    tools: tools.length === 0 ? undefined : tools,
    toolChoice: toolChoice(call.toolChoice),
    ...engineOptions(call.providerOptions, call.reasoning === "provider-default" ? undefined : call.reasoning),
  });
  return { messages, options, warnings: [...warnings, ...settingWarnings(call)] };
}

function functionTools({ tools = [] }: LanguageModelV4CallOptions): readonly Tool[] {
  return tools.flatMap((tool) =>
    tool.type === "function"
      ? [
          {
            name: tool.name,
            ...(tool.description === undefined ? {} : { description: tool.description }),
            parameters: tool.inputSchema as JsonSchema,
          },
        ]
      : [],
  );
}

function toolChoice(choice: LanguageModelV4CallOptions["toolChoice"]): ToolChoiceOption | undefined {
  return choice?.type === "tool" ? { name: choice.toolName } : choice?.type;
}

function replySchema(format: LanguageModelV4CallOptions["responseFormat"]): JsonSchema | undefined {
  if (format?.type !== "json") return undefined;
  return (format.schema as JsonSchema | undefined) ?? ANY_OBJECT;
}

function settingWarnings(call: LanguageModelV4CallOptions): readonly SharedV4Warning[] {
  const { tools = [], toolChoice: choice = { type: "auto" }, responseFormat, includeRawChunks } = call;
  const warnings: SharedV4Warning[] = [];
  const warn = (feature: string, details: string): void =>
    void warnings.push({ type: "unsupported", feature, details });
  // Calls that are demanded, or chosen instead of a formatted reply, are held to their schemas.
  const isHeld = choice.type === "required" || choice.type === "tool" || responseFormat?.type === "json";
  for (const tool of tools) {
    if (tool.type === "provider") {
      warn(`provider-defined tool ${tool.id}`, "this provider runs no tools; the model was not offered this one");
      continue;
    }
    if ((tool.inputExamples ?? []).length > 0)
      warn(
        "inputExamples of tools",
        `the model was not shown those of "${tool.name}"; describe them in its description`,
      );
    if (tool.strict === true && choice.type === "auto" && !isHeld)
      warn("strict tools", `a call of "${tool.name}" is held to its schema only if toolChoice demands it`);
  }
  if (includeRawChunks === true) warn("includeRawChunks", "the model runs in this process, so there are no raw chunks");
  return warnings;
}
