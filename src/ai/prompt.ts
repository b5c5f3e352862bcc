// The SDK's prompt as the messages of a chat. Parts of other providers' replies that a text model has no use for are left
// out with a warning; parts that a user sent and the model cannot read are refused.

import type { LanguageModelV4Message, LanguageModelV4ToolResultPart, SharedV4Warning } from "@ai-sdk/provider";
import type { ChatMessage, ChatToolCall } from "../chat/message.js";
import { fileText } from "./file-text.js";

type Role = LanguageModelV4Message["role"];
type ContentOf<Name extends Role> = Extract<LanguageModelV4Message, { role: Name }>["content"];

/** The messages of a prompt, and warnings about parts that were left out. */
export interface PromptMessages {
  readonly messages: readonly ChatMessage[];
  readonly warnings: readonly SharedV4Warning[];
}

/** Converts a prompt; throws the SDK's UnsupportedFunctionalityError for files that are not text. */
export function promptMessages(prompt: readonly LanguageModelV4Message[]): PromptMessages {
  const warnings: SharedV4Warning[] = [];
  const messages = prompt.flatMap((message, index) => {
    const place = `prompt[${index}]`;
    switch (message.role) {
      case "system":
        return [{ role: "system", content: message.content }] satisfies ChatMessage[];
      case "user":
        return [{ role: "user", content: userText(message.content, place) }] satisfies ChatMessage[];
      case "assistant":
        return assistantMessages(message.content, place, warnings);
      case "tool":
        return message.content.flatMap((part, at) =>
          // An approval answers a tool that a provider runs; this one runs none.
          part.type === "tool-result" ? [toolMessage(part, `${place}.content[${at}]`)] : [],
        );
      default:
        return message satisfies never;
    }
  });
  return { messages, warnings };
}

/** Texts are joined as they are; a file stands apart from what surrounds it. */
function userText(content: ContentOf<"user">, place: string): string {
  return content.reduce((text, part, index) => {
    if (part.type === "text")
      return text === "" || content[index - 1].type === "text" ? text + part.text : `${text}\n\n${part.text}`;
    const file = fileText(part, `${place}.content[${index}]`);
    return text === "" ? file : `${text}\n\n${file}`;
  }, "");
}

/** A reply, cut behind the results of tools that another provider ran: a result follows the message with its call. */
function assistantMessages(
  content: ContentOf<"assistant">,
  place: string,
  warnings: SharedV4Warning[],
): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  let draft = new ReplyDraft();
  for (const [index, part] of content.entries()) {
    switch (part.type) {
      case "text":
        draft.text += part.text;
        break;
      case "reasoning":
        draft.reasoning += part.text;
        break;
      case "tool-call":
        draft.calls.push({ id: part.toolCallId, name: part.toolName, arguments: jsonText(part.input) });
        break;
      case "tool-result":
        if (!draft.isEmpty) messages.push(draft.message());
        draft = new ReplyDraft();
        messages.push(toolMessage(part, `${place}.content[${index}]`));
        break;
      case "file":
      case "reasoning-file":
      case "custom":
        warnings.push({
          type: "unsupported",
          feature: `${part.type} parts of assistant messages`,
          details: `${place}.content[${index}] was left out: this model reads text only`,
        });
        break;
      default:
        part satisfies never;
    }
  }
  if (!draft.isEmpty || messages.length === 0) messages.push(draft.message());
  return messages;
}

/** A message of the assistant that is being put together. */
class ReplyDraft {
  text = "";
  reasoning = "";
  readonly calls: ChatToolCall[] = [];

  get isEmpty(): boolean {
    return this.text === "" && this.reasoning === "" && this.calls.length === 0;
  }

  message(): ChatMessage {
    const { text, reasoning, calls } = this;
    return {
      role: "assistant",
      content: text,
      ...(reasoning === "" ? {} : { reasoning }),
      ...(calls.length === 0 ? {} : { toolCalls: calls }),
    };
  }
}

function toolMessage({ toolCallId, toolName, output }: LanguageModelV4ToolResultPart, place: string): ChatMessage {
  return { role: "tool", content: resultText(output, place), toolCallId, name: toolName };
}

function resultText(output: LanguageModelV4ToolResultPart["output"], place: string): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return jsonText(output.value);
    case "execution-denied":
      return output.reason ?? "The user denied the execution of this tool.";
    case "content":
      return output.value
        .flatMap((part) => (part.type === "text" ? [part.text] : part.type === "file" ? [fileText(part, place)] : []))
        .join("\n");
    default:
      return output satisfies never;
  }
}

/** JSON text of any value; of `undefined`, which JSON does not have, that of null. */
function jsonText(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}
