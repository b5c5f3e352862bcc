// Opening what is not a readable file, reading tensors, and files that change or are disposed while in use.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, truncateSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { GgufFile, type GgufOpenOptions } from "./file.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { encodeGguf } from "./writer.js";

const folder = temporaryFolder();
const LARGE_BYTES = 8 * 2 ** 20;
const MODEL = encodeGguf({
  metadata: [],
  tensors: [
    { name: "small", type: "F32", shape: [32], data: Buffer.from(Array.from({ length: 128 }, (_, index) => index)) },
    { name: "large", type: "I8", shape: [LARGE_BYTES], data: Buffer.alloc(LARGE_BYTES, 9) },
  ],
});

function tensorOf(file: GgufFile, name: string) {
  const tensor = file.tensors.get(name);
  if (tensor === undefined) throw new Error(`the test's own file has no ${name}`);
  return tensor;
}

describe("what is not a readable file", () => {
  test("rejects a missing file", async () => {
    const path = folder.path("missing.gguf");
    await expect(GgufFile.open(path)).rejects.toMatchObject({
      name: "FileError",
      code: "FILE_NOT_FOUND",
      details: { path },
    });
  });

  test("rejects a path through a file", async () => {
    const path = `${folder.write("file.gguf", MODEL)}/inside.gguf`;
    await expect(GgufFile.open(path)).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  test("rejects a directory", async () => {
    mkdirSync(folder.path("directory.gguf"));
    await expect(GgufFile.open(folder.path("directory.gguf"))).rejects.toMatchObject({
      code: "FILE_UNREADABLE",
      details: { found: "a directory" },
    });
  });

  test.skipIf(process.platform === "win32")("rejects a pipe without waiting for it (needs mkfifo)", async () => {
    execFileSync("mkfifo", [folder.path("pipe.gguf")]);
    await expect(GgufFile.open(folder.path("pipe.gguf"))).rejects.toMatchObject({
      code: "FILE_UNREADABLE",
      details: { found: "a pipe" },
    });
  });

  test.skipIf(process.platform === "win32")("rejects a device behind a link (needs /dev/zero)", async () => {
    symlinkSync("/dev/zero", folder.path("device.gguf"));
    await expect(GgufFile.open(folder.path("device.gguf"))).rejects.toMatchObject({ code: "FILE_UNREADABLE" });
  });

  test.skipIf(process.getuid?.() === 0 || process.platform === "win32")(
    "rejects a file without permission (root may read anything)",
    async () => {
      const path = folder.write("forbidden.gguf", MODEL);
      chmodSync(path, 0);
      await expect(GgufFile.open(path)).rejects.toMatchObject({ code: "FILE_UNREADABLE", cause: { code: "EACCES" } });
    },
  );

  test.skipIf(process.platform === "win32")("rejects a link to itself (needs symbolic links)", async () => {
    symlinkSync(folder.path("loop.gguf"), folder.path("loop.gguf"));
    await expect(GgufFile.open(folder.path("loop.gguf"))).rejects.toMatchObject({
      code: "FILE_UNREADABLE",
      details: { reason: "ELOOP" },
      message: expect.stringContaining("its symbolic links form a loop (ELOOP); check where they point"),
    });
  });

  test("rejects unknown options and impossible values", async () => {
    const path = folder.write("options.gguf", MODEL);
    await expect(GgufFile.open(path, { maping: "off" } as GgufOpenOptions)).rejects.toMatchObject({
      code: "OPTION_UNKNOWN",
    });
    await expect(GgufFile.open(path, { mapping: "maybe" } as unknown as GgufOpenOptions)).rejects.toMatchObject({
      code: "OPTION_VALUE",
    });
  });

  test.skipIf(process.platform !== "linux")(
    "leaves no descriptor open after a refusal (counts /proc/self/fd)",
    async () => {
      const path = folder.write("cut.gguf", MODEL.subarray(0, 60));
      const before = readdirSync("/proc/self/fd").length;
      for (let round = 0; round < 50; round++) await GgufFile.open(path).catch(() => undefined);
      expect(readdirSync("/proc/self/fd").length).toBeLessThan(before + 25);
    },
  );
});

describe("reading tensors", () => {
  test("reads a whole tensor and a range of one", async () => {
    using file = await folder.open(MODEL, { mapping: "off" });
    const whole = new Uint8Array(128);
    await file.readTensor(tensorOf(file, "small"), whole);
    expect([...whole]).toEqual(Array.from({ length: 128 }, (_, index) => index));
    const range = new Uint8Array(3);
    await file.readTensor(tensorOf(file, "small"), range, 125);
    expect([...range]).toEqual([125, 126, 127]);
  });

  test.each([
    [129, 0],
    [4, 125],
    [1, -1],
    [1, 0.5],
    [1, Number.NaN],
  ])("rejects %d bytes at %d of a tensor of 128", async (length, byteOffset) => {
    using file = await folder.open(MODEL);
    await expect(file.readTensor(tensorOf(file, "small"), new Uint8Array(length), byteOffset)).rejects.toMatchObject({
      code: "OPTION_VALUE",
    });
  });

  test("rejects a tensor of another file, and trusts its own index over a caller's object", async () => {
    using file = await folder.open(MODEL);
    const own = tensorOf(file, "small");
    await expect(file.readTensor({ ...own, name: "smal" }, new Uint8Array(4))).rejects.toMatchObject({
      code: "TENSOR_MISSING",
      details: { nearest: ["small"] },
    });
    const bytes = new Uint8Array(4);
    await file.readTensor({ ...own, offset: 2 ** 40, part: 7 }, bytes);
    expect([...bytes]).toEqual([0, 1, 2, 3]);
  });

  test("rejects a read from a file that has shrunk, with what it had and has", async () => {
    const path = folder.write("shrinks.gguf", MODEL);
    using file = await GgufFile.open(path, { mapping: "off" });
    truncateSync(path, MODEL.length - 1024);
    const error: unknown = await file
      .readTensor(tensorOf(file, "large"), new Uint8Array(LARGE_BYTES))
      .catch((caught: unknown) => caught);
    expect(error).toMatchObject({ name: "GgufError", code: "GGUF_TRUNCATED", field: "large.data" });
    expect(String(error)).toContain(`it had ${MODEL.length} when it was opened`);
    const small = new Uint8Array(4);
    await file.readTensor(tensorOf(file, "small"), small);
    expect([...small]).toEqual([0, 1, 2, 3]);
  });
});

describe("disposal", () => {
  test("is idempotent, and everything afterwards is DISPOSED", async () => {
    const file = await folder.open(MODEL);
    const tensor = tensorOf(file, "small");
    file[Symbol.dispose]();
    file[Symbol.dispose]();
    await expect(file.readTensor(tensor, new Uint8Array(4))).rejects.toMatchObject({
      name: "DisposedError",
      code: "DISPOSED",
    });
    const disposed = expect.objectContaining({ name: "DisposedError", code: "DISPOSED" });
    expect(() => file.mappedView(tensor)).toThrowError(disposed);
    expect(() => file.adviseWillNeed(tensor)).toThrowError(disposed);
    expect(() => file.mapping(0)).toThrowError(disposed);
  });

  test("during a read refuses the read, and never reads another file's bytes", async () => {
    const path = folder.write("disposed.gguf", MODEL);
    const data = Buffer.alloc(LARGE_BYTES, 5);
    const otherPath = folder.write(
      "other.gguf",
      encodeGguf({ metadata: [], tensors: [{ name: "large", type: "I8", shape: [LARGE_BYTES], data }] }),
    );
    for (let round = 0; round < 10; round++) {
      const file = await GgufFile.open(path, { mapping: "off" });
      const target = new Uint8Array(LARGE_BYTES);
      const reading = file.readTensor(tensorOf(file, "large"), target);
      file[Symbol.dispose]();
      // Takes the lowest free descriptor: the one that was just given up, had it been given up too early.
      using other = await GgufFile.open(otherPath, { mapping: "off" });
      await expect(reading).rejects.toMatchObject({ code: "DISPOSED" });
      expect(target.includes(5)).toBe(false);
      expect(other.tensors.size).toBe(1);
    }
  });

  test.skipIf(process.platform !== "linux")(
    "closes the descriptor, also after a read in flight (counts /proc/self/fd)",
    async () => {
      const path = folder.write("closed.gguf", MODEL);
      const before = readdirSync("/proc/self/fd").length;
      for (let round = 0; round < 50; round++) {
        const file = await GgufFile.open(path);
        const reading = file.readTensor(tensorOf(file, "small"), new Uint8Array(128)).catch(() => undefined);
        file[Symbol.dispose]();
        await reading;
      }
      expect(readdirSync("/proc/self/fd").length).toBeLessThan(before + 25);
    },
  );
});
