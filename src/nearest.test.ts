import { describe, expect, it } from "vitest";
import { didYouMean, editDistance, nearestNames } from "./nearest.js";

describe("nearestNames", () => {
  it("counts edits", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("", "abc")).toBe(3);
    expect(editDistance("same", "same")).toBe(0);
    expect(editDistance("hots", "host")).toBe(1);
    expect(editDistance("ab", "ba")).toBe(1);
  });

  it("lists the closest first", () => {
    expect(nearestNames("temprature", ["repeatPenalty", "temperatures", "temperature"], 2)).toEqual([
      "temperature",
      "temperatures",
    ]);
  });

  it.each([
    ["run", ["generate", "chat", "serve", "plan", "synth"]],
    ["foo", ["generate", "chat", "doctor"]],
    ["x", ["y"]],
    ["", ["a"]],
  ])("suggests nothing for %j: every name is another word", (wanted, names) => {
    expect(nearestNames(wanted, names)).toEqual([]);
    expect(didYouMean(wanted, names)).toBe("");
  });

  it("accepts edits of a third of the word", () => {
    expect(nearestNames("sed", ["seed"])).toEqual(["seed"]);
    expect(nearestNames("sd", ["seed"])).toEqual([]);
    expect(nearestNames("abcdef", ["abcdxy"])).toEqual(["abcdxy"]);
    expect(nearestNames("abcdef", ["abcxyz"])).toEqual([]);
  });

  it("looks past case, hyphens and underscores", () => {
    expect(nearestNames("top_k", ["topP", "topK"], 1)).toEqual(["topK"]);
    expect(nearestNames("Q4_KM", ["Q4_K_M", "Q5_K_M"], 1)).toEqual(["Q4_K_M"]);
    expect(didYouMean("--SEED", ["--seed", "--temp"], (name) => name)).toBe(" did you mean --seed?");
  });

  it("stays quick on absurd names", () => {
    const long = "x".repeat(1_000_000);
    expect(nearestNames(long, [long, "y"], 1)).toEqual([long]);
  });
});
