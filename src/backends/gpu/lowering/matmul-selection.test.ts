import { describe, expect, it } from "vitest";
import { layoutByName, type SupportedTypeName } from "../../../quant/layout.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import { productWay, rowsClass } from "./matmul-selection.js";

function weight(type: SupportedTypeName, width = 4096, rows = 4096): TensorDescriptor {
  return { name: "w", layout: layoutByName(type), shape: [width, rows], elements: width * rows, sizeBytes: 0 };
}

const ANY = { deterministic: false, library: true };

describe("productWay", () => {
  it("streams few rows, tiles more, and leaves many to the library", () => {
    expect([1, 8, 9, 33, 383, 384, 4096].map((rows) => productWay(weight("Q4_K"), rowsClass(rows), ANY))).toEqual([
      "rounded",
      "rounded",
      "tile",
      "tile",
      "tile",
      "library",
      "library",
    ]);
  });

  it("keeps plain floats as they are a little longer", () => {
    expect([8, 32, 33, 400].map((rows) => productWay(weight("F16"), rowsClass(rows), ANY))).toEqual([
      "floats",
      "floats",
      "tile",
      "library",
    ]);
  });

  it("does without the library where there is none, or where unpacking would take too much", () => {
    expect(productWay(weight("Q4_K"), "large", { ...ANY, library: false })).toBe("tile");
    expect(productWay(weight("Q4_K", 4096, 128_256), "large", ANY)).toBe("tile");
  });

  it("never tiles in deterministic mode, nor widths that matrix units do not take", () => {
    expect(productWay(weight("Q4_K"), "large", { ...ANY, deterministic: true })).toBe("rounded");
    expect(productWay(weight("F32", 100), "large", ANY)).toBe("floats");
  });
});
