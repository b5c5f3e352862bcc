import { describe, expect, it } from "vitest";
import { arr, f32, type GgufEntry, i32, str, u32 } from "../gguf/entry.js";
import { GgufMetadata } from "../gguf/metadata.js";
import { SAMPLER_DEFAULTS, resolveSamplerOptions } from "./options.js";
import { readRecommendedSampling, withRecommended } from "./recommended-sampling.js";

const read = (...entries: GgufEntry[]) => readRecommendedSampling(new GgufMetadata(entries));
const key = (name: string): string => `general.sampling.${name}`;

describe("the sampling that a file recommends", () => {
  it("is read from llama.cpp's keys, as the numbers that were meant", () => {
    const { options, ignoredKeys } = read(
      str("general.name", "x"),
      f32(key("temp"), Math.fround(0.6)),
      i32(key("top_k"), 20),
      f32(key("top_p"), Math.fround(0.95)),
      f32(key("min_p"), 0),
      f32(key("xtc_probability"), Math.fround(0.5)),
      f32(key("xtc_threshold"), Math.fround(0.2)),
      f32(key("penalty_repeat"), Math.fround(1.05)),
      i32(key("penalty_last_n"), -1),
      i32(key("mirostat"), 2),
      f32(key("mirostat_tau"), Math.fround(4.5)),
      f32(key("mirostat_eta"), Math.fround(0.123456789)),
    );
    expect(ignoredKeys).toEqual([]);
    expect(options).toEqual({
      temperature: 0.6,
      topK: 20,
      topP: 0.95,
      minP: 0,
      xtcProbability: 0.5,
      xtcThreshold: 0.2,
      repeatPenalty: 1.05,
      penaltyTokens: -1,
      mirostat: 2,
      mirostatTau: 4.5,
      mirostatEta: 0.12345679,
    });
  });

  it("is nothing without keys", () => {
    expect(read(str("general.name", "x"))).toEqual({ options: {}, ignoredKeys: [] });
  });

  it("takes -1 for a top-k that is off, and whole numbers however they are stored", () => {
    expect(read(i32(key("top_k"), -1)).options).toEqual({ topK: 0 });
    expect(read(f32(key("top_k"), 64)).options).toEqual({ topK: 64 });
    expect(read(u32(key("temp"), 1)).options).toEqual({ temperature: 1 });
  });

  it.each<readonly [string, GgufEntry]>([
    ["NaN", f32(key("temp"), Number.NaN)],
    ["infinity", f32(key("temp"), Number.POSITIVE_INFINITY)],
    ["a negative temperature", f32(key("temp"), -1)],
    ["a share over 1", f32(key("top_p"), 1.5)],
    ["half a token", f32(key("top_k"), Math.fround(0.5))],
    ["a penalty of 0, by which logits would be divided", f32(key("penalty_repeat"), 0)],
    ["Mirostat 1", i32(key("mirostat"), 1)],
    ["a text", str(key("temp"), "0.7")],
    ["a list", arr(key("temp"), "float32", [0.7])],
    ["a huge integer", { key: key("top_k"), type: "uint64", value: 2n ** 64n - 1n }],
    ["the order of the stages, which is fixed", str(key("sequence"), "top_k;temp")],
    ["a name of Object.prototype", f32(key("constructor"), 1)],
  ])("ignores %s and says so", (_, entry) => {
    expect(read(entry, f32(key("min_p"), Math.fround(0.25)))).toEqual({
      options: { minP: 0.25 },
      ignoredKeys: [entry.key],
    });
  });
});

describe("a caller's options", () => {
  it("win over recommended ones, which win over the defaults", () => {
    const options = withRecommended({ temperature: 0.6, topK: 20 }, { temperature: 0, topK: undefined } as object);
    expect(resolveSamplerOptions(options)).toEqual({ ...SAMPLER_DEFAULTS, temperature: 0, topK: 20 });
  });

  it("are left to the sampler's check if they are no object", () => {
    for (const given of [null, "x", 5] as unknown[] as object[])
      expect(withRecommended({ topK: 20 }, given)).toBe(given);
  });
});
