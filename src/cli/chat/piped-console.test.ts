import { PassThrough, Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Output } from "../output.js";
import { MAX_MESSAGE_CHARACTERS } from "./message-assembly.js";
import { PipedConsole } from "./piped-console.js";

async function messagesOf(input: Readable, signal = new AbortController().signal): Promise<readonly string[]> {
  using console = new PipedConsole({ input, output: new Output(new PassThrough()), signal });
  const messages: string[] = [];
  for (let message = await console.next(); message !== undefined; message = await console.next())
    messages.push(message.text);
  return messages;
}

describe("answers to a pipe's messages", () => {
  it("are shown, and not obeyed, where a terminal reads them", () => {
    for (const isTTY of [true, false]) {
      const output = new Output(Object.assign(new PassThrough(), { isTTY }));
      using console = new PipedConsole({ input: new PassThrough(), output, signal: new AbortController().signal });
      expect(console.look).toEqual({ reasoning: "hidden", isTerminal: isTTY });
    }
  });
});

describe("messages from a pipe", () => {
  it("are lines, the last one with or without its end", async () => {
    expect(await messagesOf(Readable.from([Buffer.from("one\r\ntwo\n\nthr"), Buffer.from("ee")]))).toEqual([
      "one",
      "two",
      "three",
    ]);
  });

  it("are the same however the bytes come", async () => {
    const text = 'héllo\n🐈‍⬛ wörld\\\nnext\n"""\na\n\nb\n"""\nlast';
    const bytes = Buffer.from(text);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 8 }), async (cuts) => {
        const places = [0, ...cuts.toSorted((one, other) => one - other), bytes.length];
        const chunks = places.slice(1).map((end, index) => bytes.subarray(places[index], end));
        expect(await messagesOf(Readable.from(chunks))).toEqual(["héllo", "🐈‍⬛ wörld\nnext", "a\n\nb", "last"]);
      }),
    );
  });

  it("end with a signal, while none comes", async () => {
    const controller = new AbortController();
    const messages = messagesOf(new PassThrough(), controller.signal);
    controller.abort();
    expect(await messages).toEqual([]);
  });

  it("are refused when a line has no end", async () => {
    const chunk = Buffer.alloc(2 ** 20, "x");
    let taken = 0;
    const endless = new Readable({
      read() {
        taken += chunk.length;
        this.push(chunk);
      },
    });
    await expect(messagesOf(endless)).rejects.toThrow(/found a longer one/);
    expect(taken).toBeLessThan(2 * MAX_MESSAGE_CHARACTERS);
  });
});
