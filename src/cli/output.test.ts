import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { Output } from "./output.js";

function failing(code: string): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
}

describe("Output", () => {
  it("writes in order", async () => {
    const chunks: string[] = [];
    const stream = new Writable({ write: (chunk: Buffer, _encoding, done) => (chunks.push(chunk.toString()), done()) });
    const output = new Output(stream);
    await output.write("a");
    await output.writeJson({ b: 1 });
    expect(chunks.join("")).toBe('a{\n  "b": 1\n}\n');
    expect(output.gone.aborted).toBe(false);
  });

  it("knows a terminal", () => {
    const stream = new Writable();
    expect([new Output(stream).isTerminal, new Output(Object.assign(stream, { isTTY: true })).isTerminal]).toEqual([
      false,
      true,
    ]);
  });

  it("is quiet when the reader has gone, and says so by a signal", async () => {
    const output = new Output(failing("EPIPE"));
    await output.write("a");
    await output.write("b");
    expect(output.gone.aborted).toBe(true);
  });

  it("rejects a full disk", async () => {
    const output = new Output(failing("ENOSPC"));
    await expect(output.write("a")).rejects.toMatchObject({
      code: "FILE_WRITE",
      message: expect.stringContaining("the disk is full") as string,
    });
  });
});
