// Long texts in the tokenizer worker, which runs from dist/.

import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it, vi } from "vitest";
import { GgufFile } from "../../../src/gguf/file.js";
import { answerTokenizerCall, type TokenizerCall } from "../../../src/tokenizer/tokenizer-call.js";
import { createTokenizer, type TextSegment } from "../../../src/tokenizer/tokenizer.js";
import { type TokenizerSource, TokenizerWorker } from "../../../src/tokenizer/tokenizer-worker.js";

const PATHS = ["models/fable-10m-Q4_K_M.gguf", "test/fixtures/models/fable-3m-qwen2-Q4_K_M.gguf"];
const LONG_TEXT = "Once upon a time <|endoftext|> there were 12 foxes, “naïve” ones.\n\n  \t狐 ".repeat(300);

interface Source {
  readonly model: TokenizerSource;
  readonly answer: (call: TokenizerCall) => unknown;
  readonly reads: () => number;
}

const files: GgufFile[] = [];

async function open(path: string): Promise<Source> {
  const file = await GgufFile.open(fileURLToPath(new URL(`../../../${path}`, import.meta.url)), { mapping: "off" });
  files.push(file);
  const tokenizer = createTokenizer(file.metadata);
  const readHeader = vi.fn<GgufFile["readHeader"]>(() => file.readHeader());
  return {
    model: { readHeader },
    answer: (call) => answerTokenizerCall(tokenizer, call),
    reads: () => readHeader.mock.calls.length,
  };
}

const plainText = (text: string): readonly TextSegment[] => [{ text, parseSpecial: false }];

function calls(): readonly TokenizerCall[] {
  const tokens = Int32Array.from({ length: 5000 }, (_, index) => (index * 7) % 1000);
  return [
    {
      kind: "encode",
      texts: [plainText(LONG_TEXT), [], [...plainText(LONG_TEXT), { text: LONG_TEXT, parseSpecial: true }]],
      addSpecial: true,
    },
    { kind: "tokenize", text: LONG_TEXT, options: {}, withPieces: true },
    { kind: "tokenize", text: "Hi", options: {}, withPieces: false },
    { kind: "decode", lists: [tokens, new Int32Array()] },
    { kind: "detokenize", tokens, special: true },
  ];
}

describe("TokenizerWorker", () => {
  const worker = new TokenizerWorker();
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    for (const file of files) file[Symbol.dispose]();
  });

  it("gives what the tokenizer itself gives, for several models, each sent once", async () => {
    const sources = [await open(PATHS[0]), await open(PATHS[1])];
    for (const call of calls()) {
      for (const { model, answer } of sources)
        expect(plain(await worker.run(model, call))).toEqual(plain(answer(call)));
    }
    expect(sources.map(({ reads }) => reads())).toEqual([1, 1]);
  });

  it("is sent a model again that others have driven out", async () => {
    const first = await open(PATHS[0]);
    const call: TokenizerCall = { kind: "encode", texts: [plainText("Once")], addSpecial: true };
    await worker.run(first.model, call);
    for (let count = 0; count < 4; count++) await worker.run((await open(PATHS[1])).model, call);
    expect(await worker.run(first.model, call)).toEqual(first.answer(call));
    expect(first.reads()).toBe(2);
  });

  it("says what is wrong with a model's file", async () => {
    const readHeader = (): Promise<never> => Promise.reject(new Error("the file has shrunk"));
    await expect(worker.run({ readHeader }, { kind: "decode", lists: [] })).rejects.toThrow("the file has shrunk");
  });

  it("rejects too many at once, and aborted calls", async () => {
    const { model } = await open(PATHS[0]);
    const call: TokenizerCall = { kind: "encode", texts: [plainText(LONG_TEXT)], addSpecial: false };
    await worker.run(model, call);
    const leaving = new AbortController();
    const many = Array.from({ length: 80 }, (_, index) =>
      worker.run(model, call, index === 3 ? leaving.signal : undefined),
    );
    leaving.abort(new Error("gone"));
    const failures = (await Promise.allSettled(many)).flatMap((result) =>
      result.status === "rejected" ? [result.reason as { readonly code?: string; readonly message: string }] : [],
    );
    expect(failures.filter(({ code }) => code === "SERVING_QUEUE_FULL").length).toBeGreaterThan(0);
    expect(failures.filter(({ message }) => message === "gone")).toHaveLength(1);
  });
});

/** Bytes are compared as bytes, whatever holds them. */
function plain(value: unknown): unknown {
  if (ArrayBuffer.isView(value))
    return value instanceof Int32Array
      ? [...value]
      : Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString();
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, own]) => [name, plain(own)]))
    : value;
}
