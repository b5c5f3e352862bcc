import { describe, expect, it } from "vitest";
import { SAMPLER_DEFAULTS, type SamplerOptions, resolveSamplerOptions } from "./options.js";

function errorOf(options: Record<string, unknown>): unknown {
  try {
    resolveSamplerOptions(options as Partial<SamplerOptions>);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("sampler options", () => {
  it("default to what users of GGUF models expect", () => {
    expect(resolveSamplerOptions({})).toEqual(SAMPLER_DEFAULTS);
    expect(SAMPLER_DEFAULTS).toMatchObject({
      temperature: 0.8,
      topK: 40,
      topP: 0.95,
      minP: 0.05,
      repeatPenalty: 1,
      mirostat: 0,
    });
  });

  it("keep what is given, and resolve twice to the same", () => {
    const resolved = resolveSamplerOptions({ topK: 5, seed: 3, logitBias: new Map([[1, -2]]) });
    expect(resolved).toMatchObject({ topK: 5, seed: 3, temperature: 0.8 });
    expect(resolveSamplerOptions(resolved)).toEqual(resolved);
    expect(errorOf({ topK: undefined })).toBeUndefined();
  });

  it("rejects an unknown key and names the nearest", () => {
    expect(errorOf({ temprature: 1 })).toMatchObject({
      code: "OPTION_UNKNOWN",
      details: { option: "temprature", nearest: "temperature" },
    });
    expect(errorOf({ top_k: 1 })).toMatchObject({ details: { nearest: "topK" } });
    expect(errorOf({ constructor: 1 })).toMatchObject({ code: "OPTION_UNKNOWN" });
  });

  it("rejects impossible values", () => {
    const impossible: readonly Record<string, unknown>[] = [
      { temperature: -1 },
      { temperature: Number.NaN },
      { temperature: Number.POSITIVE_INFINITY },
      { temperature: "1" },
      { topK: -1 },
      { topK: 1.5 },
      { topP: 1.1 },
      { topP: -0.1 },
      { minP: 2 },
      { typicalP: -1 },
      { repeatPenalty: 0 },
      { presencePenalty: Number.NEGATIVE_INFINITY },
      { frequencyPenalty: null },
      { penaltyTokens: -2 },
      { dryMultiplier: -1 },
      { dryBase: 0.5 },
      { dryAllowedLength: 0 },
      { dryPenaltyTokens: -2 },
      { dryBreakers: [[]] },
      { dryBreakers: [[-1]] },
      { dryBreakers: ["a"] },
      { dryBreakers: "a" },
      { xtcProbability: 2 },
      { xtcThreshold: -1 },
      { mirostat: 1 },
      { mirostat: 3 },
      { mirostatTau: 0 },
      { mirostatEta: 0 },
      { seed: -1 },
      { seed: 1.5 },
      { seed: 2 ** 53 },
      { minKeep: 0 },
      { logitBias: { 1: 2 } },
      { logitBias: new Map([[-1, 0]]) },
      { logitBias: new Map([[1, Number.NaN]]) },
      { logitBias: new Map([[1, Number.POSITIVE_INFINITY]]) },
    ];
    for (const options of impossible) {
      expect(errorOf(options)).toMatchObject({ code: "OPTION_VALUE", details: { option: Object.keys(options)[0] } });
    }
  });
});
