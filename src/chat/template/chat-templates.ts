// The chat templates of a model file: one for all chats, and perhaps named ones, of which "tool_use" is for chats with
// tools. The file is untrusted: a value of the wrong type is refused, and an empty template counts as none.

import type { GgufMetadata } from "../../gguf/metadata.js";

/** The chat templates of a model. */
export interface ChatTemplates {
  readonly default: string | undefined;
  /** The template for chats with tools, if the file has a separate one. */
  readonly toolUse: string | undefined;
}

const TEMPLATE_KEY = "tokenizer.chat_template";
const TOOL_USE_KEY = `${TEMPLATE_KEY}.tool_use`;
const DEFAULT_KEY = `${TEMPLATE_KEY}.default`;

/**
 * Reads the templates. Files list the names of named templates under `tokenizer.chat_templates`, and have a key for
 * each.
 */
export function readChatTemplates(metadata: GgufMetadata): ChatTemplates {
  const text = (key: string): string | undefined => {
    const template = metadata.string(key);
    return template === undefined || template.trim() === "" ? undefined : template;
  };
  return { default: text(TEMPLATE_KEY) ?? text(DEFAULT_KEY), toolUse: text(TOOL_USE_KEY) };
}
