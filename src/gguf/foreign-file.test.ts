// What people open by mistake, and the sentence that each gets. The bytes are as the real tools write them.

import { mkdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GgufFile } from "./file.js";
import { PROBE_BYTES, recogniseForeignFile } from "./foreign-file.js";
import { temporaryFolder } from "./testing/temporary-folder.js";

const folder = temporaryFolder();

function safetensors(header: string): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), Buffer.alloc(64)]);
}

function magic(bytes: string, rest = 300): Buffer {
  return Buffer.concat([Buffer.from(bytes, "latin1"), Buffer.alloc(rest, 0x9d)]);
}

function importanceMatrix(name: string): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32LE(169, 0);
  head.writeUInt32LE(name.length, 4);
  return Buffer.concat([head, Buffer.from(name), Buffer.alloc(64, 0x3f)]);
}

function tar(): Buffer {
  const bytes = Buffer.alloc(1024);
  bytes.write("model.gguf", 0);
  bytes.write("ustar", 257);
  return bytes;
}

const LFS =
  "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4661211808\n";
const DATA_PKL = "PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\x12\0archive/data.pkl";

describe("a file that is no GGUF", () => {
  test.each<[what: string, bytes: Buffer, message: RegExp]>([
    [
      "a Git LFS pointer",
      Buffer.from(LFS),
      /found a Git LFS pointer to a file of 4661211808 bytes; run .*`git lfs pull`/,
    ],
    [
      "a web page",
      Buffer.from("\n<!DOCTYPE html>\n<html><head><title>model.gguf</title>"),
      /found a web page \(HTML\); download the file itself: .*\/resolve\//,
    ],
    ["a web page with a byte order mark", Buffer.from("\uFEFF<html lang=en>"), /found a web page/],
    [
      "safetensors",
      safetensors('{"__metadata__":{"format":"pt"},"a":{}}'),
      /found a safetensors file; use a GGUF of the same model, or convert it with .*convert_hf_to_gguf\.py/,
    ],
    [
      "the index of a safetensors model",
      Buffer.from('{\n  "metadata": {},\n  "weight_map": {}\n}'),
      /found the index of a safetensors model/,
    ],
    ["a PyTorch checkpoint", magic(DATA_PKL), /found a PyTorch checkpoint; use a GGUF/],
    ["an old PyTorch checkpoint", magic("\x80\x02\x8a\x0a"), /found a PyTorch checkpoint \(pickle\)/],
    ["a zip archive", magic("PK\x03\x04\x14\0model.gguf"), /found a zip archive; unpack it/],
    ["a gzip archive", magic("\x1f\x8b\x08"), /found a gzip archive/],
    ["a tar archive", tar(), /found a tar archive/],
    ["GGML", magic("lmgg"), /found a model in GGML, the format before GGUF; use a GGUF/],
    ["GGJT", magic("tjgg\x03\0\0\0"), /found a model in GGJT/],
    ["an old LoRA adapter", magic("algg"), /found a LoRA adapter in a format before GGUF/],
    [
      "an old importance matrix",
      importanceMatrix("blk.0.attn_q.weight"),
      /found an importance matrix \(imatrix\), which steers quantisation; name the model file/,
    ],
    ["an ONNX model", magic("\x08\x08\x12\x07pytorch\x1a\x05"), /found an ONNX model/],
    [
      "an error of a download",
      Buffer.from('{"error":"Repository not found"}'),
      /found JSON that begins "\{\\"error\\":\\"Repository not found\\"\}"; if it was downloaded, the download failed/,
    ],
    [
      "a refusal in plain text",
      Buffer.from("Access to model meta-llama/Llama-3.2-1B is restricted.\n"),
      /found text that begins "Access to model/,
    ],
    ["zeros", Buffer.alloc(100_000), /found zeros only, .*; wait for it to end, or download it again/],
    ["an empty file", Buffer.alloc(0), /found an empty file; download it again/],
    [
      "unknown bytes",
      magic("\x01\x02\x03\x04"),
      /header\.magic: expected "GGUF", found ".*", as no format that is known here begins/,
    ],
  ])("rejects %s by its name", async (_what, bytes, message) => {
    const path = folder.write("model.gguf", bytes);
    const error = await GgufFile.open(path).then(
      () => undefined,
      (refused: unknown) => refused,
    );
    expect(error).toMatchObject({ code: bytes.length === 0 ? "GGUF_TRUNCATED" : "GGUF_NOT_GGUF", details: { path } });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message.startsWith(`[gguf] ${path}: `)).toBe(true);
  });

  test("is shown cut and without control characters", () => {
    expect(recogniseForeignFile({ bytes: Buffer.from(`${"x".repeat(500)}\n`), sizeBytes: 501 })?.found).toMatch(
      /^text that begins "x{60}…"$/,
    );
    expect(recogniseForeignFile({ bytes: Buffer.from("\u001b[2Jtext"), sizeBytes: 8 })).toBeUndefined();
  });

  test("may cut a character at the end of what is looked at", () => {
    const bytes = Buffer.from("é".repeat(PROBE_BYTES)).subarray(1, PROBE_BYTES);
    expect(
      recogniseForeignFile({ bytes: Buffer.concat([Buffer.from("a"), bytes.subarray(1)]), sizeBytes: 9999 })?.found,
    ).toMatch(/^text/);
  });

  test("cannot be made to fail, whatever its bytes", () => {
    for (let length = 0; length < 64; length++) {
      for (const fill of [0x00, 0x7b, 0x08, 0x12, 0x50, 0x80, 0xff]) {
        expect(() => recogniseForeignFile({ bytes: Buffer.alloc(length, fill), sizeBytes: length })).not.toThrow();
      }
    }
  });
});

describe("a path", () => {
  test("rejects a directory, and names the models in it", async () => {
    const path = folder.path("models");
    mkdirSync(path);
    await expect(GgufFile.open(path)).rejects.toThrow(/found a directory without a \.gguf file in it$/);
    folder.write("models/b.gguf", Buffer.alloc(0));
    folder.write("models/a.gguf", Buffer.alloc(0));
    folder.write("models/readme.txt", Buffer.alloc(0));
    await expect(GgufFile.open(path)).rejects.toThrow(
      /found a directory; name a file in it, such as a\.gguf, b\.gguf$/,
    );
  });

  test("rejects a tilde that no shell has expanded, with the reason", async () => {
    await expect(GgufFile.open("~/no-such-model.gguf")).rejects.toThrow(
      /no such file; only a shell knows ~, so write the whole path/,
    );
  });
});
