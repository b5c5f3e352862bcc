// The terminal without a terminal: keys come from a stream, and what would be shown goes to another.

import { PassThrough } from "node:stream";
import type { ReadStream, WriteStream } from "node:tty";
import { describe, expect, it } from "vitest";
import { Output } from "../output.js";
import { TerminalConsole } from "./terminal-console.js";

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const CTRL_Z = "\u001a";
const ENTER = "\r";
const paste = (text: string): string => `\u001b[200~${text}\u001b[201~`;

class FakeTerminal implements Disposable {
  readonly keyboard = new PassThrough();
  readonly screen = new PassThrough();
  readonly interrupt = new AbortController();
  readonly console: TerminalConsole;
  shown = "";
  isRaw = false;

  constructor(hasColours = false) {
    const setRawMode = (isRaw: boolean): void => void (this.isRaw = isRaw);
    this.screen.on("data", (chunk: Buffer) => (this.shown += String(chunk)));
    this.console = new TerminalConsole({
      terminal: Object.assign(this.keyboard, { isTTY: true, setRawMode }) as unknown as ReadStream,
      screen: Object.assign(this.screen, { isTTY: true, columns: 80, rows: 24 }) as unknown as WriteStream,
      output: new Output(this.screen),
      hasColours,
      signal: this.interrupt.signal,
    });
  }

  /** Keys arrive one read after the other, as from a person. */
  async type(...keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      this.keyboard.write(key);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  [Symbol.dispose](): void {
    this.console[Symbol.dispose]();
  }
}

describe("messages at a terminal", () => {
  it("are lines, edited", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("hellp", "\u007f", "o", ENTER);
    expect(await message).toEqual({ text: "hello", verbatim: false });
    expect(terminal.shown).toContain("> hell");
  });

  it("come back from the history", async () => {
    using terminal = new FakeTerminal();
    const first = terminal.console.next();
    await terminal.type("one", ENTER);
    await first;
    const second = terminal.console.next();
    await terminal.type("\u001b[A", ENTER);
    expect(await second).toEqual({ text: "one", verbatim: false });
  });

  it("go on after a backslash", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("one\\", ENTER, "two", ENTER);
    expect(await message).toEqual({ text: "one\ntwo", verbatim: false });
    expect(terminal.shown).toContain("… ");
  });

  it("are one when they are pasted, whatever is in them", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("see ", paste('one\\\r\n/quit\r"""\r\u0003two\n'), " please", ENTER);
    expect(await message).toEqual({ text: 'see one\\\n/quit\n"""\n\u0003two please', verbatim: true });
    expect(terminal.shown).toContain("see [pasted 1: 4 lines] please");
  });

  it("can be a command with pasted text", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("/system ", paste("one\ntwo"), ENTER);
    expect(await message).toEqual({ text: "/system one\ntwo", verbatim: false });
  });

  it("complete the names of commands", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("/sta", "\t", ENTER);
    expect(await message).toEqual({ text: "/stats", verbatim: false });
  });
});

describe("leaving", () => {
  it("is Ctrl-D", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type(CTRL_D);
    expect([await message, await terminal.console.next()]).toEqual([undefined, undefined]);
  });

  it("sends a block first that was open", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type('"""', ENTER, "one", ENTER, "/two", ENTER, CTRL_D);
    expect(await message).toEqual({ text: "one\n/two", verbatim: true });
    expect(await terminal.console.next()).toBeUndefined();
    using interrupted = new FakeTerminal();
    const lost = interrupted.console.next();
    await interrupted.type("one\\", ENTER);
    interrupted.interrupt.abort();
    expect(await lost).toBeUndefined();
  });

  it("is Ctrl-C twice with nothing typed, and once takes back what was typed", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    await terminal.type("one", CTRL_C, "two\\", ENTER, CTRL_C, CTRL_C, "three", ENTER);
    expect(await message).toEqual({ text: "three", verbatim: false });
    expect(terminal.shown.match(/press Ctrl-C again to quit/g)).toHaveLength(1);
    const last = terminal.console.next();
    await terminal.type(CTRL_C, CTRL_C);
    expect(await last).toBeUndefined();
  });

  it("is a signal", async () => {
    using terminal = new FakeTerminal();
    const message = terminal.console.next();
    terminal.interrupt.abort();
    expect(await message).toBeUndefined();
  });

  it("leaves the terminal as it was", async () => {
    const terminal = new FakeTerminal();
    expect([terminal.isRaw, terminal.shown]).toEqual([true, "\u001b[?2004h"]);
    await terminal.type("x");
    terminal[Symbol.dispose]();
    await terminal.type("");
    expect([terminal.isRaw, terminal.shown.endsWith("\u001b[?2004l")]).toEqual([false, true]);
  });
});

describe("while an answer is written", () => {
  it("Ctrl-C stops it, and what was typed ahead comes next", async () => {
    using terminal = new FakeTerminal();
    const first = terminal.console.next();
    await terminal.type("one", ENTER);
    await first;
    const wasStopped = await terminal.console.whileAnswering(async (signal) => {
      await terminal.type("lost", CTRL_C, "two", ENTER);
      return signal.aborted;
    });
    expect(wasStopped).toBe(true);
    expect(await terminal.console.next()).toEqual({ text: "two", verbatim: false });
  });

  it("more typed ahead than a line is dropped, all of it, and told", async () => {
    using terminal = new FakeTerminal();
    await terminal.console.whileAnswering(() => terminal.type("x".repeat(3000), "y".repeat(3000), ENTER, "z"));
    const message = terminal.console.next();
    await terminal.type("one", ENTER);
    expect(await message).toEqual({ text: "one", verbatim: false });
    expect(terminal.shown).toContain("dropped what was typed during the answer: it was more than 4,096 characters\n");
    await terminal.console.whileAnswering(() => terminal.type("x".repeat(5000), CTRL_C, "two", ENTER));
    expect(await terminal.console.next()).toEqual({ text: "two", verbatim: false });
    expect(terminal.shown.match(/dropped what was typed/g)).toHaveLength(1);
  });

  it("Ctrl-Z is no key, and does not stop the program at the next prompt", async () => {
    using terminal = new FakeTerminal();
    let stops = 0;
    const count = (): void => void stops++;
    process.on("SIGTSTP", count);
    try {
      await terminal.console.whileAnswering(() => terminal.type("t", CTRL_Z, "wo", ENTER));
      expect(await terminal.console.next()).toEqual({ text: "two", verbatim: false });
      await new Promise((resolve) => setTimeout(resolve, 50));
    } finally {
      process.off("SIGTSTP", count);
    }
    expect(stops).toBe(0);
  });

  it("a question is asked and answered", async () => {
    using terminal = new FakeTerminal();
    const answers: boolean[] = [];
    for (const keys of [["y", ENTER], ["YES", ENTER], ["n", ENTER], [ENTER], [CTRL_C]]) {
      const answer = terminal.console.whileAnswering(() => terminal.console.agrees("forget it?"));
      await terminal.type(...keys);
      answers.push(await answer);
    }
    expect(answers).toEqual([true, true, false, false, false]);
    expect(terminal.shown).toContain("forget it? [y/N] ");
  });
});

describe("colours", () => {
  it("are there when they are wanted", async () => {
    using coloured = new FakeTerminal(true);
    using plain = new FakeTerminal(false);
    for (const { console } of [coloured, plain]) console.note("done");
    await Promise.all([coloured.type(""), plain.type("")]);
    expect(coloured.shown).toContain("\u001b[2mdone\u001b[0m\n");
    expect(plain.shown).toContain("done\n");
    expect([coloured.console.look.reasoning, plain.console.look.reasoning]).toEqual(["dimmed", "marked"]);
  });
});
