// `rocmforge chat`: a conversation in the terminal, or over a pipe with a message in each line.

import { ChatRenderer } from "../../chat/chat-renderer.js";
import type { PulledModel } from "../../hub/pull-types.js";
import { openModel } from "../../model/load-model.js";
import type { Model } from "../../model/model.js";
import { ChatSession, type Waiting } from "../chat/chat-session.js";
import type { ChatConsole } from "../chat/console.js";
import { PipedConsole } from "../chat/piped-console.js";
import { ModelSpeaker } from "../chat/model-speaker.js";
import { TerminalConsole } from "../chat/terminal-console.js";
import { defineCommand } from "../command.js";
import { countOf, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { namedModel } from "../model-file.js";
import { EMBEDDED_MODEL, GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS, type ModelValues } from "../model-options.js";
import type { OptionTable } from "../option-table.js";
import type { Output } from "../output.js";
import { Progress } from "../progress.js";
import { samplerOptions, SAMPLING_NOTE, SAMPLING_OPTIONS } from "../sampling-options.js";
import { GENERATION_OPTIONS } from "../generation-options.js";

const NAME = "chat";

const OPTIONS = {
  system: { kind: "text", placeholder: "TEXT", description: "system prompt" },
  ...GENERATION_OPTIONS,
  trim: { kind: "flag", description: "drop the oldest turns without asking when the context is full" },
  ...SAMPLING_OPTIONS,
  ...MODEL_OPTIONS,
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
    const sampling = samplerOptions(NAME, values);
    using interrupt = new Interrupt();
    const waits = new Waits();
    await using model = await openChatModel(values, await namedModel(values.model ?? EMBEDDED_MODEL, values), waits);
    await using renderer = new ChatRenderer({ threads: 1 });
    using console = openConsole(output, AbortSignal.any([interrupt.signal, output.gone]));
    if (console.isInteractive)
      console.note(
        `${printable(model.name)}, a context of ${countOf(model.contextTokens, "token")}; /help lists the commands, Ctrl-D quits`,
      );
    const speaker = new ModelSpeaker({
      model: model.engine,
      render: (conversation, signal) => renderer.render(model.engine, conversation, signal),
      sampling,
      maxAnswerTokens: values.tokens,
      stop: values.stop,
    });
    await new ChatSession({
      console,
      speaker,
      system: values.system,
      trim: values.trim,
      wait: (what) => waits.begin(what),
    }).run();
    return interrupt.exitStatus;
  },
});

/** Progress indicators, one at a time; loading the weights is part of the first answer. */
class Waits {
  #current: Progress | undefined;

  begin(what: string): Waiting {
    this.#current?.end();
    const progress = new Progress(what);
    this.#current = progress;
    return progress;
  }

  update(what: string): void {
    this.#current?.update(what);
  }
}

async function openChatModel(values: ModelValues, { path, label }: PulledModel, waits: Waits): Promise<Model> {
  using _ = waits.begin("opening the model");
  // The KV cache has room for the whole context from the start: one that grows would lose the earlier turns.
  return await openModel(path, loadOptions(values, waits), {
    ...(label === "" ? {} : { name: label }),
    serving: { maxSequences: 1 },
  });
}

function openConsole(output: Output, signal: AbortSignal): ChatConsole {
  const { stdin, stdout } = process;
  if (!stdin.isTTY || !stdout.isTTY) return new PipedConsole({ input: stdin, output, signal });
  return new TerminalConsole({ terminal: stdin, screen: stdout, output, hasColours: stdout.hasColors(), signal });
}
