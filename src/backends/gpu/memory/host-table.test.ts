import { describe, expect, it } from "vitest";
import { layoutByName } from "../../../quant/layout.js";
import type { TensorSource } from "../../contract.js";
import { HostTable } from "./host-table.js";

const WIDTH = 64;
const ROWS = 10;
const ROW_BYTES = (WIDTH / 32) * 34;

/** A table of Q8_0 whose rows are full of their own number, and the offsets at which it is read. */
function table(): { readonly source: TensorSource; readonly reads: number[] } {
  const reads: number[] = [];
  const source: TensorSource = {
    descriptor: {
      name: "rows",
      layout: layoutByName("Q8_0"),
      shape: [WIDTH, ROWS],
      elements: WIDTH * ROWS,
      sizeBytes: ROWS * ROW_BYTES,
      onHost: true,
    },
    read: async (target, byteOffset) => {
      reads.push(byteOffset);
      target.fill(byteOffset / ROW_BYTES);
    },
    mappedLocation: () => undefined,
  };
  return { source, reads };
}

describe("a table in host memory", () => {
  it("reads each token's row once, and takes no device memory", async () => {
    const { source, reads } = table();
    using held = new HostTable(source);
    expect(held.residentBytes).toBe(0);
    expect(held.rowBytes).toBe(ROW_BYTES);
    const tokens = [3, 7, 3, 0, 7, 9];
    const target = new Uint8Array(tokens.length * ROW_BYTES).fill(255);
    await held.readRows(Int32Array.from(tokens), target);
    for (const [index, token] of tokens.entries()) {
      const row = target.subarray(index * ROW_BYTES, (index + 1) * ROW_BYTES);
      expect(new Set(row), `row ${index}`).toEqual(new Set([token]));
    }
    expect(reads.toSorted((left, right) => left - right)).toEqual([0, 3, 7, 9].map((row) => row * ROW_BYTES));
  });

  it("reads nothing beyond the table for a wrong token, and passes a failed read on", async () => {
    const { source, reads } = table();
    await new HostTable(source).readRows(Int32Array.of(-1, ROWS), new Uint8Array(2 * ROW_BYTES));
    expect(reads).toEqual([0, 0]);
    const failing = new HostTable({ ...source, read: () => Promise.reject(new Error("the file has shrunk")) });
    await expect(failing.readRows(Int32Array.of(1), new Uint8Array(ROW_BYTES))).rejects.toThrow("shrunk");
  });
});
