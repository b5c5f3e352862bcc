// `rocmforge chat`: a conversation in the terminal, or over a pipe with a message in each line.

import { chatWithModel } from "../chat/chat-with-model.js";
import { defineCommand } from "../command.js";
import { GENERATION_OPTIONS } from "../generation-options.js";
import { DRAFT_OPTIONS } from "../draft-options.js";
import { GENERAL_OPTIONS, MODEL_OPTIONS } from "../model-options.js";
import type { OptionTable } from "../option-table.js";
import { samplerOptions, SAMPLING_NOTE, SAMPLING_OPTIONS } from "../sampling-options.js";

const NAME = "chat";

const OPTIONS = {
  system: { kind: "text", placeholder: "TEXT", description: "system prompt" },
  ...GENERATION_OPTIONS,
  trim: { kind: "flag", description: "drop the oldest turns without asking when the context is full" },
  ...SAMPLING_OPTIONS,
  ...MODEL_OPTIONS,
  ...DRAFT_OPTIONS,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `chat`. */
export const chat = defineCommand({
  name: NAME,
  summary: "chats with a model in the terminal or over a pipe",
  about: [
    "In a terminal, /help lists the commands; Ctrl-C stops an answer, Ctrl-D quits. A line that ends in \\ continues on the",
    'next one, """ opens and closes a message of several lines, and pasted text is one message. Over a pipe each line is a',
    "message, stdout has the answers, and the first failure ends it; an answer leaves room in the context for the next",
    "message, unless --tokens or --trim is given. NO_COLOR is respected.",
    SAMPLING_NOTE,
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    {
      what: "a conversation with a system prompt",
      line: 'rocmforge chat -m model.gguf --system "You are a patient teacher."',
    },
    {
      what: "two questions from a pipe, the second about the first answer",
      line: String.raw`printf 'Name a king.\nWhere did he live?\n' | rocmforge chat -m model.gguf --temp 0`,
    },
  ],
  async run(values, _positionals, { output }) {
    const { system, tokens: maxAnswerTokens, stop, trim } = values;
    return await chatWithModel(
      { values, sampling: samplerOptions(NAME, values), system, maxAnswerTokens, stop, trim },
      output,
    );
  },
});
