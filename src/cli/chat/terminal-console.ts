// A conversation at a terminal: a line editor with history, Ctrl-C to stop the answer and not the program, colours if
// enabled. Ctrl-D quits, and so does Ctrl-C twice on an empty line.

import { createInterface, type Interface } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { countOf } from "../format.js";
import type { Output } from "../output.js";
import type { AnswerLook } from "./answer-view.js";
import type { ChatConsole } from "./console.js";
import { MAX_MESSAGE_CHARACTERS, type Message, MessageAssembly, messageTooLong } from "./message-assembly.js";
import { DISABLE_PASTE_MARKS, ENABLE_PASTE_MARKS } from "./paste-filter.js";
import { completeCommand } from "./slash-command.js";
import { MAX_HELD_CHARACTERS, TerminalKeys } from "./terminal-keys.js";

const HISTORY_LINES = 1000;
const PROMPT = "> ";
const CONTINUED_PROMPT = "… ";
const BOLD = "\u001b[1m";
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";

interface TerminalConsoleOptions {
  readonly terminal: ReadStream;
  readonly screen: WriteStream;
  readonly output: Output;
  readonly hasColours: boolean;
  /** Aborted when the program ends. */
  readonly signal: AbortSignal;
}

type LineEvent =
  | { readonly kind: "line"; readonly line: string }
  | { readonly kind: "interrupt" }
  | { readonly kind: "end" };

/** Reads messages from a line editor at a terminal. */
export class TerminalConsole implements ChatConsole {
  readonly isInteractive = true;
  readonly look: AnswerLook;
  readonly #screen: WriteStream;
  readonly #output: Output;
  readonly #signal: AbortSignal;
  readonly #hasColours: boolean;
  readonly #keys: TerminalKeys;
  readonly #editor: Interface;
  readonly #assembly = new MessageAssembly();
  readonly #events: LineEvent[] = [];
  #wake: () => void = () => {};
  #wasInterrupted = false;
  #hasEnded = false;

  constructor({ terminal, screen, output, hasColours, signal }: TerminalConsoleOptions) {
    this.#screen = screen;
    this.#output = output;
    this.#signal = signal;
    this.#hasColours = hasColours;
    this.look = { reasoning: hasColours ? "dimmed" : "marked", isTerminal: true };
    this.#keys = new TerminalKeys(terminal);
    this.#editor = createInterface({
      input: this.#keys,
      output: screen,
      terminal: true,
      historySize: HISTORY_LINES,
      removeHistoryDuplicates: true,
      completer: (line: string) => [[...completeCommand(line)], line],
    });
    this.#editor.on("line", (line) => this.#tell({ kind: "line", line }));
    this.#editor.on("SIGINT", () => this.#tell({ kind: "interrupt" }));
    this.#editor.on("SIGCONT", this.#resume);
    this.#editor.on("close", this.#end);
    signal.addEventListener("abort", this.#end, { once: true });
    if (signal.aborted) this.#end();
    screen.write(ENABLE_PASTE_MARKS);
    // A signal that ends the program immediately must not leave the terminal changed.
    process.once("exit", this.#restore);
  }

  async next(): Promise<Message | undefined> {
    this.#screen.write("\n");
    for (;;) {
      const event = await this.#read(this.#styled(BOLD, this.#assembly.isOpen ? CONTINUED_PROMPT : PROMPT));
      if (event.kind === "end") return this.#signal.aborted ? undefined : this.#assembly.finish();
      if (event.kind === "interrupt") {
        if (this.#shallLeave()) return undefined;
        continue;
      }
      this.#wasInterrupted = false;
      const message = this.#messageOf(event.line);
      if (message !== undefined) return message;
    }
  }

  async agrees(question: string): Promise<boolean> {
    const event = await this.#read(`${question} [y/N] `);
    if (event.kind === "interrupt") this.#screen.write("\n");
    return event.kind === "line" && /^\s*y(?:es)?\s*$/i.test(event.line);
  }

  async whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const stopping = new AbortController();
    this.#keys.onInterrupt = () => stopping.abort();
    try {
      return await work(AbortSignal.any([stopping.signal, this.#signal]));
    } finally {
      this.#keys.onInterrupt = () => {};
    }
  }

  async write(text: string): Promise<void> {
    await this.#output.write(text);
  }

  note(text: string): void {
    this.#screen.write(`${this.#styled(DIM, text)}\n`);
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener("abort", this.#end);
    this.#editor.close();
    this.#keys.destroy();
    process.off("exit", this.#restore);
    this.#restore();
  }

  /** After Ctrl-Z and `fg`: the editor is paused then, and the shell has changed the terminal settings. */
  readonly #resume = (): void => {
    this.#screen.write(ENABLE_PASTE_MARKS);
    this.#editor.prompt(true);
  };

  readonly #end = (): void => {
    this.#hasEnded = true;
    this.#wake();
  };

  readonly #restore = (): void => void this.#screen.write(DISABLE_PASTE_MARKS);

  #messageOf(line: string): Message | undefined {
    const text = this.#keys.pastes.expand(line);
    if (text === line || this.#assembly.isOpen) return this.#assembly.push(text);
    // Backslashes and quotation marks in pasted text are literal.
    if (text.length > MAX_MESSAGE_CHARACTERS) throw messageTooLong();
    return { text, verbatim: !line.startsWith("/") };
  }

  /** Ctrl-C at a prompt: clears the line, and quits if it was empty twice. */
  #shallLeave(): boolean {
    const wasEmpty = this.#editor.line === "" && !this.#assembly.isOpen;
    this.#assembly.discard();
    // To the end of the line first: clearing removes what is before the cursor.
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#editor.write(null, { ctrl: true, name: "u" });
    this.#screen.write("\n");
    if (wasEmpty && this.#wasInterrupted) return true;
    this.#wasInterrupted = wasEmpty;
    if (wasEmpty) this.note("press Ctrl-C again to quit, or use Ctrl-D or /quit");
    return false;
  }

  async #read(prompt: string): Promise<LineEvent> {
    if (this.#events.length === 0 && !this.#hasEnded) {
      if (this.#keys.takeTooMuch())
        this.note(
          `dropped what was typed during the answer: it was more than ${countOf(MAX_HELD_CHARACTERS, "character")}`,
        );
      this.#editor.setPrompt(prompt);
      this.#editor.prompt();
      this.#keys.isEditing = true;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (this.#events.length > 0 || this.#hasEnded) resolve();
      });
      this.#keys.isEditing = false;
    }
    return this.#events.shift() ?? { kind: "end" };
  }

  #tell(event: LineEvent): void {
    this.#events.push(event);
    this.#wake();
  }

  #styled(style: string, text: string): string {
    return this.#hasColours ? `${style}${text}${PLAIN}` : text;
  }
}
