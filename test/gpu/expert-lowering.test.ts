// Launches of mixtures of experts, with no device: published shapes decode a token in few launches a layer, every kernel gets
// every argument that its source declares, and larger batches take the groups apart.

import { describe, expect, it } from "vitest";
import { loadKernelSource } from "../../src/backends/gpu/kernels/kernel-source.js";
import type { LoweringContext } from "../../src/backends/gpu/lowering/context.js";
import type { LaunchSize, LaunchSpec } from "../../src/backends/gpu/lowering/launch.js";
import { createContext, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { batchClass } from "../../src/backends/gpu/lowering/matmul-selection.js";
import { exactSize } from "../../src/backends/gpu/lowering/step-bucket.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import type { SHAPES } from "../../src/cli/synth/shape.js";
import type { MixName } from "../../src/cli/synth/type-mix.js";
import { publishedModel } from "./toolchains/representative-models.js";

const H200 = { waveSize: 32, multiprocessors: 132, sharedBytes: 227 << 10, totalBytes: 150e9 } as const;
const LIMITS = { maxTokens: 512, maxOutputs: 64, contextTokens: 4096, blockTokens: 32, kvCacheType: "f16" } as const;
const FILES = ["matmul/router", "matmul/grouped-gemv", "matmul/expert-sum"];

function contextOf(name: keyof typeof SHAPES, deterministic = false, type: MixName = "Q4_K_M"): LoweringContext {
  const { fused, weights } = publishedModel(name, type);
  return createContext({ fused, weights, limits: LIMITS, device: H200, kind: "cuda", deterministic });
}

function sizeOf(tokens: number): LaunchSize {
  return exactSize({ tokens, sequences: 1, outputs: 1, scored: 1, tiles: 1, longest: 1000, longestRun: tokens });
}

function launched(context: LoweringContext, tokens: number): readonly LaunchSpec[] {
  const size = sizeOf(tokens);
  return lowerStep(context, { tokens: batchClass(tokens), outputs: batchClass(1), blas: false })
    .filter(isLaunch)
    .filter(({ grid }) => grid(size).every((blocks) => blocks > 0));
}

/** Of the second layer, which is the first with experts, from its first matmul on to that of the next layer. */
function layerLabels(tokens: number): readonly string[] {
  const { fused, weights } = publishedModel("glm4.7-flash", "Q4_K");
  const device = { ...H200, architecture: "sm_90" };
  const context = createContext({ fused, weights, limits: LIMITS, device, kind: "cuda", deterministic: false });
  const size = exactSize({
    tokens,
    sequences: tokens,
    outputs: 1,
    scored: 1,
    tiles: 1,
    longest: 160,
    longestRun: 1,
  });
  const labels = lowerStep(context, { tokens: batchClass(tokens), outputs: batchClass(1), blas: false })
    .filter(isLaunch)
    .filter(({ grid }) => grid(size).every((blocks) => blocks > 0))
    .map(({ label }) => label);
  const end = labels.indexOf("sum of slots and norm") + 1;
  const keys = labels.indexOf("latent key and queries", labels.indexOf("latent key and queries") + 1);
  return labels.slice(keys - 3, end);
}

describe("a layer of latent attention and experts", () => {
  const before = ["wide gemm", "norm", "wide gemm", "latent key and queries"];
  const attention = [...before, "grouped gemm", "attention", "grouped gemm"];
  const router = ["input", "wide gemm", "norm", "gemv", "route and order of experts"];

  it("is sixteen launches for 64 sequences that decode", () => {
    const experts = ["gate and up, grouped gemm", "input of slots", "grouped gemm", "sum of slots and norm"];
    expect(layerLabels(64)).toEqual([...attention, ...router, ...experts]);
  });

  it("is fifteen launches for 16 sequences that decode", () => {
    const experts = ["gate and up, sorted gemv", "sorted gemv", "sum of slots and norm"];
    expect(layerLabels(16)).toEqual([...attention, ...router, ...experts]);
  });
});

describe("a network of experts", () => {
  it.each([1, 8])("is three launches for %i tokens, after the layer's own", (tokens) => {
    const context = contextOf("qwen3-30b-a3b");
    expect(context.options.fused.experts.length).toBe(3);
    const labels = launched(context, tokens).map(({ label }) => label);
    const routers = labels.flatMap((label, index) => (label === "router" ? [index] : []));
    expect(routers.length).toBe(3);
    for (const index of routers)
      expect(labels.slice(index, index + 3)).toEqual(["router", "normed experts' gate and up", "sum of experts"]);
    expect(labels[routers[0] + 3]).toBe(tokens === 1 ? "gemv" : "norm");
  });

  it("is fused in the last layer alone in larger batches, and everywhere in deterministic mode", () => {
    const sums = (deterministic: boolean): number =>
      launched(contextOf("qwen3-30b-a3b", deterministic), 40).filter(({ label }) => label === "sum of experts").length;
    expect(sums(false)).toBe(1);
    expect(sums(true)).toBe(3);
  });

  it.each([
    [16, ["route and order of experts"], ["gate and up, sorted gemv", "sorted gemv"]],
    [64, ["route and order of experts"], ["gate and up, grouped gemm", "input of slots", "grouped gemm"]],
    [65, ["route", "order of experts"], ["gate and up, grouped gemm", "input of slots", "grouped gemm"]],
  ] as const)(
    "has a shared expert as one more matrix of its grouped matmuls for %i tokens",
    (tokens, order, matmuls) => {
      const launches = launched(contextOf("glm4.7-flash", false, "Q4_K"), tokens);
      const labels = launches.map(({ label }) => label);
      const route = labels.indexOf(order[0]);
      const expected = ["norm", "gemv", ...order, ...matmuls, "sum of slots and norm", "gemm"];
      expect(labels.slice(route - 2, route - 2 + expected.length)).toEqual(expected);
      for (const label of matmuls.filter((name) => name !== "input of slots")) {
        // Without a router the matrices of heads are grouped matmuls too.
        const launch = launches.find((each) => each.label === label && each.variants[0].defines["ROUTED"] !== 0);
        if (launch === undefined) throw new Error(`no launch is called ${label}`);
        expect(launch.variants.every(({ defines }) => defines["SHARED_EXPERT"] === 1)).toBe(true);
        const source = loadKernelSource(launch.file).kernel(launch.variants[0].kernel).layout;
        expect(Object.keys({ ...launch.arguments, ...launch.sized?.(sizeOf(tokens)) }).toSorted()).toEqual(
          source.fields.map((field) => field.name).toSorted(),
        );
      }
    },
  );

  it("gets every argument that its kernels declare", () => {
    for (const name of ["qwen3-30b-a3b", "gpt-oss-20b"] as const) {
      const launches = launched(contextOf(name), 1);
      for (const file of FILES) {
        const launch = launches.find((each) => each.file === file);
        if (launch === undefined) throw new Error(`${name} launches nothing of ${file}`);
        const source = loadKernelSource(file);
        const declared = source.kernel(launch.variants[0].kernel).layout.fields.map((field) => field.name);
        const given = { ...launch.arguments, ...launch.sized?.(sizeOf(1)) };
        expect(Object.keys(given).toSorted()).toEqual(declared.toSorted());
      }
    }
  });
});
