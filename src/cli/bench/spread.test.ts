import { describe, expect, it } from "vitest";
import { spreadOf } from "./spread.js";

describe("spread", () => {
  it("has the middle one, or the mean of the two middle ones, and the ends", () => {
    expect(spreadOf([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5, samples: [5, 1, 3] });
    expect(spreadOf([4, 1, 3, 100])).toMatchObject({ median: 3.5, min: 1, max: 100 });
    expect(spreadOf([7])).toMatchObject({ median: 7, min: 7, max: 7 });
  });
});
