// The keyboard as readline sees it: a stream between the terminal and its line editor. While a line is edited, keys
// pass and pasted text is replaced by its name; while an answer is generated, Ctrl-C stops it and other keys wait for
// the next line.

import { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { ReadStream } from "node:tty";
import { CTRL_C, PasteFilter, PastedTexts } from "./paste-filter.js";

const CTRL_Z = "\u001a";
/** Limit on keys typed ahead of a prompt, which are one line at most. */
export const MAX_HELD_CHARACTERS = 4096;

/** The terminal's keyboard as a stream for readline, with pastes replaced and Ctrl-C intercepted. */
export class TerminalKeys extends Readable {
  readonly pastes = new PastedTexts();
  /** Called on Ctrl-C while no line is edited. */
  onInterrupt: () => void = () => {};
  readonly #terminal: ReadStream;
  readonly #decoder = new StringDecoder("utf8");
  readonly #filter = new PasteFilter();
  #isEditing = false;
  #held = "";
  #heldTooMuch = false;

  constructor(terminal: ReadStream) {
    super();
    this.#terminal = terminal;
    terminal.on("data", this.#receive);
    terminal.on("end", this.#end);
    terminal.on("close", this.#end);
  }

  get isEditing(): boolean {
    return this.#isEditing;
  }

  set isEditing(isEditing: boolean) {
    this.#isEditing = isEditing;
    if (!isEditing || this.#held === "") return;
    this.push(this.#held);
    this.#held = "";
  }

  /**
   * Whether more was typed ahead than the limit allows, in which case all of it was dropped. Call once before each
   * line.
   */
  takeTooMuch(): boolean {
    const heldTooMuch = this.#heldTooMuch;
    this.#heldTooMuch = false;
    return heldTooMuch;
  }

  /** Called by readline. */
  setRawMode(isRaw: boolean): this {
    this.#terminal.setRawMode(isRaw);
    return this;
  }

  override _read(): void {
    this.#terminal.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#terminal.off("data", this.#receive).off("end", this.#end).off("close", this.#end).pause();
    callback(error);
  }

  readonly #end = (): void => void this.push(null);

  readonly #receive = (chunk: Buffer): void => {
    for (const { kind, text } of this.#filter.push(this.#decoder.write(chunk))) {
      this.#pass(kind === "paste" ? this.pastes.keep(text) : text);
    }
  };

  #pass(text: string): void {
    if (this.#isEditing) {
      this.push(text);
      return;
    }
    const stop = text.lastIndexOf(CTRL_C);
    if (stop === -1) {
      this.#hold(text);
      return;
    }
    this.#held = "";
    this.#heldTooMuch = false;
    this.#hold(text.slice(stop + CTRL_C.length));
    this.onInterrupt();
  }

  #hold(text: string): void {
    // A held Ctrl-Z would suspend the program at the next prompt.
    const held = this.#held + text.replaceAll(CTRL_Z, "");
    // A truncated line would be worse than none.
    this.#heldTooMuch ||= held.length > MAX_HELD_CHARACTERS;
    this.#held = this.#heldTooMuch ? "" : held;
  }
}
