// The type table against the golden blocks and against the list of types we promise to decode.

import { expect, test } from "vitest";
import { readPackedLines } from "../../test/support/packed-json.js";
import { LAYOUTS, REMOVED_TYPES, SUPPORTED, describeTypeId, layoutById, layoutByName } from "./layout.js";

const PROMISED =
  "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4".split(" ");

test("ids, block sizes and block bytes are those of the golden blocks", () => {
  const blocks = readPackedLines(
    new URL("../../test/fixtures/golden/dequantize.jsonl.br", import.meta.url),
  ) as readonly Readonly<{ type: string; id: number; blockSize: number; blockBytes: number }>[];
  expect(blocks.length).toBeGreaterThan(20);
  for (const golden of blocks) {
    expect(layoutById(golden.id)).toMatchObject({
      name: golden.type.toUpperCase(),
      blockElements: golden.blockSize,
      blockBytes: golden.blockBytes,
    });
  }
});

test("exactly the promised types are supported", () => {
  expect(SUPPORTED.map(({ name }) => name).sort()).toEqual(PROMISED.sort());
});

test("ids and names are unique, found both ways, and apart from the removed ones", () => {
  expect(new Set(LAYOUTS.map(({ id }) => id)).size).toBe(LAYOUTS.length);
  for (const layout of LAYOUTS) {
    expect(layoutById(layout.id)).toBe(layout);
    expect(layoutByName(layout.name)).toBe(layout);
    expect(REMOVED_TYPES.has(layout.id)).toBe(false);
  }
  expect(layoutById(4)).toBeUndefined();
  expect([describeTypeId(12), describeTypeId(4), describeTypeId(77)]).toEqual([
    "Q4_K (12)",
    "Q4_2 (4, removed)",
    "77 (unknown)",
  ]);
});
