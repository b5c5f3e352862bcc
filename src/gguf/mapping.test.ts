// Mapped views: the same bytes as positional reads, refused when the file has shrunk, readable for as long as held.

import { readFileSync, truncateSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { GgufFile, type GgufTensor } from "./file.js";
import { mappingUnavailableReason } from "./mapping.js";
import { temporaryFolder } from "./testing/temporary-folder.js";
import { encodeGguf, writeGguf } from "./writer.js";

const folder = temporaryFolder();
const TENSOR_BYTES = 2 ** 20;
const MODEL = encodeGguf({
  metadata: [],
  tensors: ["first", "second"].map((name, index) => ({
    name,
    type: "I8" as const,
    shape: [TENSOR_BYTES],
    data: Buffer.alloc(TENSOR_BYTES, index + 1),
  })),
});
const unavailableReason = mappingUnavailableReason();

function tensorOf(file: GgufFile, name: string): GgufTensor {
  const tensor = file.tensors.get(name);
  if (tensor === undefined) throw new Error(`the test's own file has no ${name}`);
  return tensor;
}

describe("files that cannot be mapped", () => {
  test.each([
    ["win32", "ia32"],
    ["darwin", "arm64"],
    ["linux", "ia32"],
  ])("%s on %s says why", (platform, architecture) => {
    expect(mappingUnavailableReason(platform, architecture)).toContain("positionally");
  });

  test("are read positionally if mapping is off", async () => {
    using file = await folder.open(MODEL, { mapping: "off" });
    const tensor = tensorOf(file, "second");
    expect(file.mappingState).toEqual({ mapped: false, reason: "turned off" });
    expect(file.mapping(0)).toBeUndefined();
    expect(file.mappedView(tensor)).toBeUndefined();
    file.adviseWillNeed(tensor);
    const bytes = new Uint8Array(TENSOR_BYTES);
    await file.readTensor(tensor, bytes);
    expect(bytes.every((byte) => byte === 2)).toBe(true);
  });
});

describe.skipIf(unavailableReason !== undefined)(
  `mapped files${unavailableReason === undefined ? "" : ` (skipped: ${unavailableReason})`}`,
  () => {
    function mappedRanges(path: string): number {
      return readFileSync("/proc/self/maps", "utf8")
        .split("\n")
        .filter((line) => line.endsWith(path)).length;
    }

    test("give each tensor's bytes without a copy", async () => {
      using file = await folder.open(MODEL);
      expect(file.mappingState).toMatchObject({ mapped: true });
      expect(file.mapping(0)?.sizeBytes).toBe(MODEL.length);
      for (const [index, name] of ["first", "second"].entries()) {
        const tensor = tensorOf(file, name);
        file.adviseWillNeed(tensor);
        const view = file.mappedView(tensor);
        expect(view?.byteLength).toBe(TENSOR_BYTES);
        expect(view?.every((byte) => byte === index + 1)).toBe(true);
      }
    });

    test("share one buffer between two views of a tensor", async () => {
      using file = await folder.open(MODEL);
      const tensor = tensorOf(file, "first");
      expect(file.mappedView(tensor)?.buffer).toBe(file.mappedView(tensor)?.buffer);
    });

    test("refuse a view of what a shrunken file no longer holds", async () => {
      const path = folder.write("shrinks.gguf", MODEL);
      using file = await GgufFile.open(path);
      truncateSync(path, MODEL.length - 4096);
      expect(file.mappedView(tensorOf(file, "first"))?.[0]).toBe(1);
      expect(() => file.mappedView(tensorOf(file, "second"))).toThrowError(
        expect.objectContaining({ name: "GgufError", code: "GGUF_TRUNCATED", field: "second.data" }),
      );
    });

    test("are unmapped at once if no view exists, and their address is refused", async () => {
      const path = folder.write("unheld.gguf", MODEL);
      const file = await GgufFile.open(path);
      const mapping = file.mapping(0);
      expect(mapping?.address).toBeTypeOf("bigint");
      expect(mappedRanges(path)).toBe(1);
      file[Symbol.dispose]();
      expect(mappedRanges(path)).toBe(0);
      expect(() => mapping?.address).toThrowError(expect.objectContaining({ code: "DISPOSED" }));
      expect(() => mapping?.view(0, 1)).toThrowError(expect.objectContaining({ code: "DISPOSED" }));
    });

    test("stay readable through a held view after disposal, and are unmapped once it is collected", async () => {
      setFlagsFromString("--expose-gc");
      const collect = runInNewContext("gc") as () => void;
      const path = folder.write("held.gguf", MODEL);
      const held = { view: undefined as Uint8Array | undefined };
      const file = await GgufFile.open(path);
      held.view = file.mappedView(tensorOf(file, "second"))?.subarray(10, 20);
      file[Symbol.dispose]();
      collect();
      await pause(20);
      expect([...(held.view ?? [])]).toEqual(Array(10).fill(2));
      expect(mappedRanges(path)).toBe(1);
      held.view = undefined;
      for (let round = 0; round < 100 && mappedRanges(path) > 0; round++) {
        collect();
        await pause(20);
      }
      expect(mappedRanges(path)).toBe(0);
    });

    test("give no view above 4 GiB, which would end the process", async () => {
      const path = folder.path("giant.gguf");
      const rows = 2 ** 18 + 1;
      await writeGguf(path, {
        metadata: [],
        tensors: [{ name: "giant", type: "I8", shape: [2 ** 14, rows], data: "sparse" }],
      });
      using file = await GgufFile.open(path);
      expect(file.mappingState.mapped).toBe(true);
      expect(file.mappedView(tensorOf(file, "giant"))).toBeUndefined();
      const tail = new Uint8Array(16);
      await file.readTensor(tensorOf(file, "giant"), tail, 2 ** 14 * rows - 16);
      expect([...tail]).toEqual(Array(16).fill(0));
    });
  },
);
