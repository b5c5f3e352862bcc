import { describe, expect, it } from "vitest";
import type { RopeScaling } from "./descriptor.js";
import { ropeTable } from "./rope.js";

const UNSCALED: RopeScaling = {
  kind: "none",
  factor: 1,
  originalContext: 4096,
  attentionFactor: 1,
};
const style = "adjacent";

describe("ropeTable", () => {
  it("turns the first pair by one radian a position and later ones ever slower", () => {
    const { frequencies, magnitude } = ropeTable({ style, base: 10_000, rotaryWidth: 8, scaling: UNSCALED });
    expect(frequencies).toEqual([1, 0.1, 0.01, expect.closeTo(0.001, 12)]);
    expect(magnitude).toBe(1);
  });

  it("slows every pair alike when interpolating linearly", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "linear", factor: 4 };
    const { frequencies } = ropeTable({ style, base: 10_000, rotaryWidth: 8, scaling });
    expect(frequencies[0]).toBeCloseTo(0.25, 12);
    expect(frequencies[2]).toBeCloseTo(0.0025, 12);
  });

  it("keeps fast pairs and interpolates slow ones with YaRN, and sharpens attention", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "yarn", factor: 4 };
    const plain = ropeTable({ style, base: 10_000, rotaryWidth: 128, scaling: UNSCALED }).frequencies;
    const { frequencies, magnitude } = ropeTable({ style, base: 10_000, rotaryWidth: 128, scaling });
    expect(frequencies[0]).toBeCloseTo(plain[0], 12);
    expect(frequencies[63]).toBeCloseTo(plain[63] / 4, 12);
    const ratios = frequencies.map((frequency, pair) => frequency / plain[pair]);
    for (let pair = 1; pair < 64; pair++) expect(ratios[pair]).toBeLessThanOrEqual(ratios[pair - 1]);
    expect(magnitude).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
  });

  it("does not blunt attention where YaRN shrinks the context", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "yarn", factor: 0.5, attentionFactor: 1.25 };
    expect(ropeTable({ style, base: 10_000, rotaryWidth: 128, scaling }).magnitude).toBe(1.25);
  });
});
