import { describe, expect, it } from "vitest";
import type { RopeScaling } from "./layer.js";
import { yarnMagnitude } from "./hyper-parameters.js";
import { ropeTable } from "./rope.js";

const UNSCALED: RopeScaling = {
  kind: "none",
  factor: 1,
  originalContext: 4096,
  magnitude: 1,
};
const style = "adjacent";

describe("ropeTable", () => {
  it("rotates the first pair by one radian a position and later ones ever slower", () => {
    const { ratio, stretches, magnitude } = ropeTable({ style, base: 10_000, rotaryWidth: 8, scaling: UNSCALED });
    expect(ratio).toBe(Math.fround(0.1));
    expect(stretches).toEqual([1, 1, 1, 1]);
    expect(magnitude).toBe(1);
  });

  it("slows every pair alike when interpolating linearly", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "linear", factor: 4 };
    expect(ropeTable({ style, base: 10_000, rotaryWidth: 8, scaling }).stretches).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  it("keeps fast pairs and interpolates slow ones with YaRN, and sharpens attention", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "yarn", factor: 4, magnitude: 1.25 };
    const { stretches, magnitude } = ropeTable({ style, base: 10_000, rotaryWidth: 128, scaling });
    expect(stretches[0]).toBe(1);
    expect(stretches[63]).toBe(0.25);
    for (let pair = 1; pair < 64; pair++) expect(stretches[pair]).toBeLessThanOrEqual(stretches[pair - 1]);
    expect(magnitude).toBe(1.25);
  });

  it("leaves pairs as they are that the specification names", () => {
    const { stretches } = ropeTable({ style, base: 10_000, rotaryWidth: 8, scaling: UNSCALED, unrotatedPairs: [1, 3] });
    expect(stretches).toEqual([1, 0, 1, 0]);
  });

  it("takes the borders of YaRN's ramp from the scaling", () => {
    const scaling: RopeScaling = { ...UNSCALED, kind: "yarn", factor: 4, betaFast: 1e-3, betaSlow: 1e-4 };
    expect(ropeTable({ style, base: 10_000, rotaryWidth: 128, scaling }).stretches[63]).toBe(1);
  });
});

describe("yarnMagnitude", () => {
  it("sharpens attention with the context, and does not blunt it if the context shrinks", () => {
    expect(yarnMagnitude(4)).toBeCloseTo(1 + 0.1 * Math.log(4), 12);
    expect(yarnMagnitude(0.5)).toBe(1);
  });
});
