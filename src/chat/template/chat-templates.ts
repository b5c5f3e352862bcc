// The chat templates of a model file: one for all, and perhaps named ones, of which "tool_use" is for chats with tools.
// What the file says is untrusted: a value of another type is refused when it is read, and one without a word is none.

import type { GgufMetadata } from "../../gguf/metadata.js";

export interface ChatTemplates {
  readonly default: string | undefined;
  /** For chats with tools, where the file has another for these. */
  readonly toolUse: string | undefined;
}

const TEMPLATE_KEY = "tokenizer.chat_template";
const TOOL_USE_KEY = `${TEMPLATE_KEY}.tool_use`;
const DEFAULT_KEY = `${TEMPLATE_KEY}.default`;

/** Writers that know named templates put their names under `tokenizer.chat_templates`; each has a key of its own. */
export function readChatTemplates(metadata: GgufMetadata): ChatTemplates {
  const text = (key: string): string | undefined => {
    const template = metadata.string(key);
    return template === undefined || template.trim() === "" ? undefined : template;
  };
  return { default: text(TEMPLATE_KEY) ?? text(DEFAULT_KEY), toolUse: text(TOOL_USE_KEY) };
}
