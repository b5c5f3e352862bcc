// The launches of a model with recurrent layers: few for a token, and the same kernels in every step of one size.

import { describe, expect, it } from "vitest";
import type { GpuLoweringOptions } from "../../src/backends/gpu/lowering/context.js";
import { isNeeded, type LaunchSize } from "../../src/backends/gpu/lowering/launch.js";
import { KernelChoices } from "../../src/backends/gpu/lowering/kernel-choices.js";
import { createContext, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { batchClass } from "../../src/backends/gpu/lowering/matmul-selection.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import { remembered } from "../support/remembered.js";
import { publishedModel } from "./toolchains/representative-models.js";

const DEVICE = { waveSize: 32, multiprocessors: 132, sharedBytes: 232_448, totalBytes: 140e9 } as const;
const LIMITS = { maxTokens: 4096, maxOutputs: 64, contextTokens: 4096, blockTokens: 32, kvCacheType: "f16" } as const;

const context = remembered((deterministic: boolean) => {
  const { fused, weights } = publishedModel("qwen35-35b-a3b", "Q4_K");
  const options: GpuLoweringOptions = { fused, weights, device: DEVICE, limits: LIMITS, kind: "cuda", deterministic };
  return createContext(options);
});

function decodeSize(sequences: number): LaunchSize {
  const counts = { tokens: sequences, sequences, outputs: sequences, scored: sequences, tiles: sequences };
  return { ...counts, longest: 100, longestRun: 1, splits: 1 };
}

/** The labels of what the first layer launches for a token of each of these sequences. */
function firstLayer(sequences: number): readonly string[] {
  const size = decodeSize(sequences);
  const batch = batchClass(sequences);
  const items = lowerStep(context(false).compact, { tokens: batch, outputs: batch, blas: false, tiled: false });
  const labels = items.filter(isLaunch).flatMap((item) => (isNeeded(item, size) ? [item.label] : []));
  const starts = labels.flatMap((label, index) => (label === "causal convolution" ? [index] : []));
  return labels.slice(1, 1 + starts[1] - starts[0]);
}

describe("a gated delta net with experts", () => {
  it("is ten launches for one token", () => {
    expect(firstLayer(1)).toEqual([
      "gemv",
      "norm",
      "gemv",
      "causal convolution",
      "delta-net",
      "gated norm of heads",
      "gemv",
      "router",
      "normed experts' gate and up",
      "sum of experts",
    ]);
  });

  it("is fourteen launches for sixteen tokens, the shared expert's among the others", () => {
    expect(firstLayer(16)).toHaveLength(14);
  });

  it("has a block for each slice of a state in each sequence there may be, and reads counts from the step", () => {
    const items = lowerStep(context(true).compact, { tokens: "small", outputs: "small", blas: false });
    const launch = items.filter(isLaunch).find(({ label }) => label === "delta-net");
    expect(launch?.grid(decodeSize(7))).toEqual([32 * 4, 7, 1]);
    // A captured graph does not know how many sequences its steps have.
    const bucket = { ...decodeSize(16), sequences: 0 };
    expect(launch?.grid(bucket)).toEqual([32 * 4, 16, 1]);
    expect([1, 0, 5].map((longestRun) => launch?.choose?.({ ...bucket, longestRun }))).toEqual([0, 1, 1]);
    expect(launch?.variants.map(({ defines }) => defines["CHUNK"])).toEqual([1, 16]);
  });

  it("computes long runs by groups of tokens, beside short ones, but not in deterministic mode", () => {
    const launched = (deterministic: boolean, sequences: number, tokens: number, longestRun: number) => {
      const items = lowerStep(context(deterministic).compact, { tokens: "huge", outputs: "small", blas: false });
      const size = { ...decodeSize(sequences), tokens, longestRun };
      const launches = items.filter(isLaunch).filter(({ file }) => file === "recurrent/delta-net");
      const first = launches.slice(0, deterministic ? 1 : 2).filter((launch) => isNeeded(launch, size));
      return first.map(({ variants, choose, sized }) => [
        variants[choose?.(size) ?? 0].kernel,
        sized?.(size)["short_run"],
      ]);
    };
    const [byToken, all] = [["delta_net", 31], 2 ** 31 - 1];
    const byGroup = ["delta_net_groups", 31];
    expect(launched(true, 1, 4096, 4096)).toEqual([["delta_net", undefined]]);
    expect(launched(false, 16, 16, 1)).toEqual([["delta_net", all]]);
    expect(launched(false, 0, 64, 0)).toEqual([["delta_net", all]]);
    expect(launched(false, 2, 40, 31)).toEqual([["delta_net", all]]);
    expect(launched(false, 1, 4096, 4096)).toEqual([byGroup]);
    expect(launched(false, 4, 4096, 1024)).toEqual([byGroup]);
    expect(launched(false, 4, 1003, 1000)).toEqual([byToken, byGroup]);
  });

  it("computes long runs token by token on a card that computes groups wrongly", () => {
    const choices = new KernelChoices({ deterministic: false, poor: false });
    for (const careful of [0, 1]) choices.avoid({ file: "recurrent/delta-net", defines: { careful } });
    const items = lowerStep(context(false).withChoices(choices), { tokens: "huge", outputs: "small", blas: false });
    const launches = items.filter(isLaunch).filter(({ file }) => file === "recurrent/delta-net");
    expect(new Set(launches.flatMap(({ variants }) => variants.map(({ kernel }) => kernel)))).toEqual(
      new Set(["delta_net"]),
    );
  });

  it("joins the matmuls of one input that keep the precision of f32, and has dots for the shared expert's gate", () => {
    const items = lowerStep(context(false).compact, { tokens: "huge", outputs: "small", blas: false });
    const launches = items.filter(isLaunch);
    const joined = launches
      .filter(({ label }) => label === "gemm of floats")
      .map(({ variants }) => variants[0].defines);
    const dots = launches.filter(({ label }) => label === "dots of floats").map(({ variants }) => variants[0].defines);
    expect(joined[0]).toMatchObject({ MATMULS: 2, TILE_TOKENS: 32, TILE_ROWS: 64, ALIGNED: 1 });
    expect(joined[1]).toMatchObject({ MATMULS: 1, TILE_TOKENS: 64, TILE_ROWS: 64, ALIGNED: 1 });
    expect(dots[0]).toMatchObject({ ROWS: 1, ALIGNED: 1 });
  });
});
