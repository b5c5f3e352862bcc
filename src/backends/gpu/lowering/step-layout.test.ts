import { describe, expect, it } from "vitest";
import type { StepInput } from "../../contract.js";
import { planOutputs, REQUEST_WORDS } from "./output-rows.js";
import { packStep, StepLayout, tableEntriesOf } from "./step-layout.js";

const STEP: StepInput = {
  tokens: Int32Array.of(7, 8, 9, 70, 90, 91),
  positions: Int32Array.of(5, 6, 7, 0, 30, 31),
  sequenceOffsets: Int32Array.of(0, 3, 4, 6),
  blockTables: [Int32Array.of(4, 2, 9), Int32Array.of(1), Int32Array.of(10, 11, 12, 13, 14, 15, 16, 3, 8)],
  outputs: [
    { row: 2, want: { kind: "hidden" } },
    { row: 3, want: { kind: "candidates", count: 2 } },
    { row: 5, want: { kind: "logits" }, allowMask: Uint32Array.of(5, 6) },
  ],
};
const CACHE = { groups: [{ address: 0x1234567890n, blocks: 20 }], blockTokens: 4 };

function packed(layout: StepLayout): {
  readonly ints: Int32Array;
  readonly view: DataView;
  readonly counts: ReturnType<typeof packStep>;
} {
  const outputs = planOutputs(STEP.outputs, 64);
  const view = new DataView(
    new ArrayBuffer(layout.usedBytes(tableEntriesOf(STEP, CACHE.blockTokens), outputs.payloadWords)),
  );
  const counts = packStep(layout, view, STEP, outputs, CACHE);
  return { ints: new Int32Array(view.buffer), view, counts };
}

describe("packStep", () => {
  const layout = new StepLayout({ tokens: 8, outputs: 4, tileTokens: 2 });
  const { ints, view, counts } = packed(layout);
  const array = (field: keyof typeof layout.offsets, length: number): number[] => [
    ...ints.subarray(layout.offsets[field] / 4, layout.offsets[field] / 4 + length),
  ];

  it("counts what launches depend on", () => {
    expect(counts).toEqual({ tokens: 6, sequences: 3, outputs: 3, scored: 2, tiles: 4, longest: 32, longestRun: 3 });
  });

  it("writes the head as kernels/device/step.h has it", () => {
    expect(array("head", 6)).toEqual([6, 3, 3, 2, 4, 20]);
    expect(view.getBigUint64(layout.offsets.head + 32, true)).toBe(CACHE.groups[0].address);
  });

  it("writes rows, cells, tables and tiles", () => {
    expect(array("tokens", 6)).toEqual([...STEP.tokens]);
    expect(array("positions", 6)).toEqual([...STEP.positions]);
    expect(array("sequences", 6)).toEqual([0, 0, 0, 1, 2, 2]);
    expect(array("cells", 6)).toEqual([2 * 4 + 1, 2 * 4 + 2, 2 * 4 + 3, 1 * 4, 3 * 4 + 2, 3 * 4 + 3]);
    expect(array("outputs", 3)).toEqual([2, 3, 5]);
    expect(array("scored", 2)).toEqual([1, 2]);
    // Only blocks that hold positions: the table's last entries are not the step's.
    expect(array("tableStarts", 3)).toEqual([0, 2, 3]);
    expect(array("tables", 11)).toEqual([4, 2, 1, 10, 11, 12, 13, 14, 15, 16, 3]);
    expect(array("tiles", 12)).toEqual([0, 2, 0, 2, 1, 0, 3, 1, 1, 4, 2, 2]);
  });

  it("puts masks right behind the tables, where the requests say", () => {
    const requests = layout.offsets.requests / 4;
    const mask = requests + ints[requests + REQUEST_WORDS + 3];
    expect(mask).toBe(layout.offsets.tables / 4 + 11);
    expect([...ints.subarray(mask, mask + 2)]).toEqual([5, 6]);
  });

  it("keeps arrays apart and aligned for any capacity", () => {
    for (const capacity of [1, 3, 64, 4096]) {
      const { offsets } = new StepLayout({ tokens: capacity, outputs: capacity, tileTokens: 64 });
      const starts = Object.values(offsets);
      expect(starts.every((offset) => offset % 16 === 0)).toBe(true);
      expect(starts).toEqual(starts.toSorted((left, right) => left - right));
      expect(offsets.positions - offsets.tokens).toBeGreaterThanOrEqual(capacity * 4);
      expect(offsets.requests - offsets.tiles).toBeGreaterThanOrEqual(capacity * 12);
    }
  });

  it("writes a head, cells and tables for each cache group", () => {
    const grouped = new StepLayout({ tokens: 8, outputs: 4, tileTokens: 2, groups: 2 });
    const groups = [...CACHE.groups, { address: 0x777n, blocks: 5 }];
    // The window's blocks before the positions that queries see are gone.
    const windows = [Int32Array.of(0, 3), Int32Array.of(4), Int32Array.of(0, 0, 0, 0, 0, 0, 2, 1)];
    const step = { ...STEP, blockTables: [...STEP.blockTables, ...windows] };
    const entries = tableEntriesOf(step, CACHE.blockTokens);
    expect(entries).toBe(22);
    const outputs = planOutputs(step.outputs, 64);
    const bytes = new DataView(new ArrayBuffer(grouped.usedBytes(entries, outputs.payloadWords)));
    packStep(grouped, bytes, step, outputs, { groups, blockTokens: CACHE.blockTokens });
    const words = new Int32Array(bytes.buffer);
    const at = (byteOffset: number, length: number): number[] => [
      ...words.subarray(byteOffset / 4, byteOffset / 4 + length),
    ];
    expect(at(grouped.groupOffset("head", 1), 6)).toEqual([6, 3, 3, 2, 4, 5]);
    expect(bytes.getBigUint64(grouped.groupOffset("head", 0) + 32, true)).toBe(CACHE.groups[0].address);
    expect(bytes.getBigUint64(grouped.groupOffset("head", 1) + 32, true)).toBe(0x777n);
    expect(at(grouped.groupOffset("cells", 0), 6)).toEqual([9, 10, 11, 4, 14, 15]);
    expect(at(grouped.groupOffset("cells", 1), 6)).toEqual([13, 14, 15, 16, 6, 7]);
    expect(at(grouped.groupOffset("tableStarts", 0), 3)).toEqual([0, 2, 3]);
    expect(at(grouped.groupOffset("tableStarts", 1), 3)).toEqual([11, 13, 14]);
    expect(at(grouped.offsets.tables + 44, 11)).toEqual(windows.flatMap((table) => [...table]));
    const requests = grouped.offsets.requests / 4;
    expect(requests + words[requests + REQUEST_WORDS + 3]).toBe(grouped.offsets.tables / 4 + 22);
  });

  it("writes the state slots that sequences read and tokens write, and which of them are the same", () => {
    const stateful = new StepLayout({ tokens: 8, outputs: 4, tileTokens: 2, states: true });
    const step = {
      ...STEP,
      stateReads: Int32Array.of(4, -1, 2),
      stateWrites: Int32Array.of(7, -1, 4, 1, -1, 3),
    };
    const outputs = planOutputs(step.outputs, 64);
    const bytes = new DataView(new ArrayBuffer(stateful.usedBytes(11, outputs.payloadWords)));
    packStep(stateful, bytes, step, outputs, { ...CACHE, states: 0x4567n });
    const at = (field: "stateRuns" | "stateWrites", length: number): number[] => [
      ...new Int32Array(bytes.buffer, stateful.offsets[field], length),
    ];
    expect(at("stateRuns", 12)).toEqual([0, 3, 4, 2, 3, 1, -1, -1, 4, 2, 2, -1]);
    expect(at("stateWrites", 6)).toEqual([...step.stateWrites]);
    expect(bytes.getBigUint64(stateful.offsets.head + 40, true)).toBe(0x4567n);
    expect(stateful.offsets.requests - stateful.offsets.stateWrites).toBe(32);
  });

  it("lets the tables of one group serve all", () => {
    const grouped = new StepLayout({ tokens: 8, outputs: 4, tileTokens: 2, groups: 2 });
    const shared = packed(grouped);
    const at = (field: "cells" | "tableStarts", group: number): number[] => {
      const first = grouped.groupOffset(field, group) / 4;
      return [...shared.ints.subarray(first, first + 3)];
    };
    expect(at("cells", 1)).toEqual(at("cells", 0));
    expect(at("tableStarts", 1)).toEqual([0, 2, 3]);
  });
});
