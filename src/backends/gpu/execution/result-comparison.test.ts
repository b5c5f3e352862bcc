import { describe, expect, it } from "vitest";
import { areSameResults } from "./result-comparison.js";

const bytesOf = (...values: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);

describe("results of two variants", () => {
  it("agree in deterministic mode only if no bit differs", () => {
    expect(areSameResults("f32", bytesOf(1, 2), bytesOf(1, 2), true)).toBe(true);
    expect(areSameResults("f32", bytesOf(1, 2), bytesOf(1, 2 + 2 ** -22), true)).toBe(false);
    expect(areSameResults("i8", Uint8Array.of(5), Uint8Array.of(6), true)).toBe(false);
  });

  it("agree otherwise if sums differ by rounding, and not by a term", () => {
    expect(areSameResults("f32", bytesOf(8, 1e-6), bytesOf(8 + 2 ** -20, 2e-6), false)).toBe(true);
    expect(areSameResults("f32", bytesOf(8, 1), bytesOf(8, 1.1), false)).toBe(false);
    expect(areSameResults("sums", bytesOf(1000, 20), bytesOf(1002, 19), false)).toBe(true);
    expect(areSameResults("sums", bytesOf(1000, 20), bytesOf(1040, 20), false)).toBe(false);
  });

  it("may be the next half, and not one further away than rounding", () => {
    const halvesOf = (...values: readonly number[]): Uint8Array => new Uint8Array(Uint16Array.from(values).buffer);
    // 1, 1 + 2^-10, 1.5, and the NaN that results are filled with before a launch.
    expect(areSameResults("f16", halvesOf(0x3c00, 0x3e00), halvesOf(0x3c01, 0x3e00), false)).toBe(true);
    expect(areSameResults("f16", halvesOf(0x3c00, 0x3e00), halvesOf(0x3e00, 0x3e00), false)).toBe(false);
    expect(areSameResults("f16", halvesOf(0xffff), halvesOf(0xffff), false)).toBe(true);
    expect(areSameResults("f16", halvesOf(0x3c00), halvesOf(0xffff), false)).toBe(false);
  });

  it("may have quantized values next to one another, also around zero", () => {
    expect(areSameResults("i8", Uint8Array.of(127, 0, 255), Uint8Array.of(126, 255, 0), false)).toBe(true);
    expect(areSameResults("i8", Uint8Array.of(127), Uint8Array.of(128), false)).toBe(false);
    expect(areSameResults("i8", Uint8Array.of(5), Uint8Array.of(7), false)).toBe(false);
  });

  it("differ where only one is NaN or infinite, and where a launch wrote nothing", () => {
    expect(areSameResults("f32", bytesOf(1, 2), bytesOf(1, Number.NaN), false)).toBe(false);
    expect(areSameResults("f32", bytesOf(1, Number.NaN), bytesOf(1, Number.NaN), false)).toBe(true);
    expect(areSameResults("f32", bytesOf(1, Infinity), bytesOf(1, -Infinity), false)).toBe(false);
    expect(areSameResults("f32", bytesOf(1, 2), bytesOf(1, Infinity), false)).toBe(false);
    expect(areSameResults("f32", bytesOf(1, 2), new Uint8Array(8).fill(0xff), false)).toBe(false);
    expect(areSameResults("f32", bytesOf(1, 2), bytesOf(1), false)).toBe(false);
  });
});
