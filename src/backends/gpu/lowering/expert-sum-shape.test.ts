import { describe, expect, it } from "vitest";
import { expertSumBytes, expertSumShape } from "./expert-sum-shape.js";
import { groupedGemvShape } from "./grouped-gemv-shape.js";

const H200 = { waveSize: 32, multiprocessors: 132 } as const;

describe("expertSumShape", () => {
  it("has every weight block of a row on its way at once if they are few, and even rounds otherwise", () => {
    const few = expertSumShape({ ...H200, rows: 2048, slots: 8, sharedSlots: 0, width: 768 });
    expect(few?.defines).toMatchObject({ ROWS: 1, DEPTH: 6, WIDTH: 768 });
    const many = expertSumShape({ ...H200, rows: 2880, slots: 4, sharedSlots: 0, width: 2880 });
    expect(many?.defines.DEPTH).toBe(6);
    const seven = expertSumShape({ ...H200, rows: 2048, slots: 7, sharedSlots: 0, width: 1024 });
    expect(seven?.defines.DEPTH).toBe(4);
  });

  it("covers all rows, and is undefined if the inputs do not fit shared memory", () => {
    for (const rows of [1, 9, 2048, 7168]) {
      const shape = expertSumShape({ ...H200, rows, slots: 8, sharedSlots: 1, width: 512 });
      expect((shape?.blocks ?? 0) * 8 * (shape?.defines.ROWS ?? 0)).toBeGreaterThanOrEqual(rows);
    }
    expect(expertSumShape({ ...H200, rows: 2048, slots: 32, sharedSlots: 0, width: 2048 })).toBeUndefined();
    expect(expertSumBytes(8, 0, 48)).toBeUndefined();
  });
});

describe("groupedGemvShape", () => {
  it("writes quantized rows in whole blocks of 32, at every wave size", () => {
    for (const waveSize of [32, 64] as const) {
      for (const [outputs, slots, width] of [
        [768, 8, 2048],
        [2880, 4, 2880],
        [32, 1, 256],
        [1408, 6, 8192],
      ]) {
        const shape = groupedGemvShape({
          outputs,
          slots,
          width,
          form: "gated to quantized rows",
          types: [12, 12],
          floats: false,
          waveSize,
          multiprocessors: 132,
        });
        const { THREADS, SPLIT, ROWS } = shape.defines;
        expect(shape.passes * (THREADS / waveSize / SPLIT) * ROWS, `${outputs} rows, wave ${waveSize}`).toBe(32);
        expect(shape.blocks * 32).toBe(outputs);
      }
    }
  });

  it("has a whole row on its way if registers allow it", () => {
    const depthOf = (type: number, width: number): number =>
      groupedGemvShape({
        ...H200,
        outputs: 2880,
        slots: 4,
        width,
        form: "gated to quantized rows",
        types: [type, type],
        floats: false,
      }).defines["DEPTH"];
    expect([depthOf(39, 2880), depthOf(12, 2048), depthOf(8, 2880), depthOf(13, 2048)]).toEqual([3, 2, 2, 1]);
  });
});
