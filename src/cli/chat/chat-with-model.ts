// A chat with a model at the terminal or over a pipe, for the commands that offer one.

import { ChatRenderer } from "../../chat/chat-renderer.js";
import type { PulledModel } from "../../hub/pull-types.js";
import { openModel } from "../../model/load-model.js";
import type { Model } from "../../model/model.js";
import type { SamplerOptions } from "../../sampler/options.js";
import { countOf, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { namedModel } from "../model-file.js";
import { EMBEDDED_MODEL, loadOptions, type ModelValues } from "../model-options.js";
import type { Output } from "../output.js";
import { Progress } from "../progress.js";
import { ChatSession, type Waiting } from "./chat-session.js";
import type { ChatConsole } from "./console.js";
import { ModelSpeaker } from "./model-speaker.js";
import { PipedConsole } from "./piped-console.js";
import { TerminalConsole } from "./terminal-console.js";

/** How a chat is held. */
export interface ChatSettings {
  readonly values: ModelValues;
  readonly sampling: Partial<SamplerOptions>;
  readonly system?: string | undefined;
  readonly maxAnswerTokens?: number | undefined;
  readonly stop?: readonly string[];
  /** Whether the oldest turns are dropped without asking when the context is full. */
  readonly trim?: boolean;
}

/** Opens the model, or downloads it first, and chats until the user quits; returns the exit status. */
export async function chatWithModel(settings: ChatSettings, output: Output): Promise<number> {
  const { values, sampling, system, maxAnswerTokens, stop = [], trim = false } = settings;
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
    maxAnswerTokens,
    stop,
  });
  await new ChatSession({ console, speaker, system, trim, wait: (what) => waits.begin(what) }).run();
  return interrupt.exitStatus;
}

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
