import { describe, expect, it } from "vitest";
import { editDistance, nearestNames } from "./nearest.js";

describe("nearestNames", () => {
  it("counts edits", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("", "abc")).toBe(3);
    expect(editDistance("same", "same")).toBe(0);
  });

  it("lists the closest first", () => {
    expect(nearestNames("temprature", ["repeatPenalty", "temperature", "typicalP"], 2)).toEqual(["temperature", "typicalP"]);
  });

  it("stays quick on absurd names", () => {
    const long = "x".repeat(1_000_000);
    expect(nearestNames(long, [long, "y"], 1)).toEqual([long]);
  });
});
