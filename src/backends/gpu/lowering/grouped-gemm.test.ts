// Lowering of experts in batches that the grouped GEMM computes, with no device.

import { describe, expect, it } from "vitest";
import { fuse } from "../../../graph/fusion.js";
import { layoutByName } from "../../../quant/layout.js";
import { mixtureCase, type MixtureCase } from "../../../../test/conformance/experts-case.js";
import { programOf } from "../../../../test/conformance/harness.js";
import { loadKernelSource } from "../kernels/kernel-source.js";
import type { LoweringContext } from "./context.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { createContext, lowerStep } from "./lowering.js";
import { batchClass } from "./matmul-selection.js";
import { exactSize } from "./step-bucket.js";
import { isLaunch } from "./step-item.js";

const H200 = { waveSize: 32, multiprocessors: 132, sharedBytes: 227 << 10, totalBytes: 150e9 } as const;
const LIMITS = { maxTokens: 4096, maxOutputs: 256, contextTokens: 4096, blockTokens: 32, kvCacheType: "f16" } as const;
const MIXTURE: MixtureCase = { type: "Q4_K", activation: "silu", experts: 16, used: 4 };

function contextOf(wanted: MixtureCase, deterministic = false, architecture = "sm_80"): LoweringContext {
  const subject = mixtureCase(wanted, 4);
  const program = programOf(subject);
  const weights = program.weights.map(({ name }) => {
    const { type, shape, data } = subject.weights[name];
    const elements = shape.reduce((total, dimension) => total * dimension, 1);
    return { name, layout: layoutByName(type), shape, elements, sizeBytes: data.length };
  });
  const device = { ...H200, architecture };
  return createContext({ fused: fuse(program), weights, limits: LIMITS, device, kind: "cuda", deterministic });
}

function sizeOf(tokens: number): LaunchSize {
  return exactSize({ tokens, sequences: 1, outputs: 1, scored: 0, tiles: 1, longest: tokens, longestRun: tokens });
}

function launches(context: LoweringContext, tokens: number): readonly LaunchSpec[] {
  const size = { tokens: batchClass(tokens), outputs: batchClass(1), blas: false };
  return lowerStep(context, size)
    .filter(isLaunch)
    .filter(({ grid }) => grid(sizeOf(tokens)).every((blocks) => blocks > 0));
}

const isExpert = ({ label }: LaunchSpec): boolean => label.includes("group") || label.includes("order");

describe("experts of a larger batch", () => {
  it("are sorted once, and multiplied in two launches", () => {
    const labels = launches(contextOf(MIXTURE), 64)
      .filter(isExpert)
      .map(({ label }) => label);
    expect(labels).toEqual(["order of experts", "gate and up, grouped gemm", "grouped gemm"]);
  });

  it("whose gates and ups are one tensor are multiplied in two launches too", () => {
    const labels = launches(contextOf({ ...MIXTURE, type: "Q8_0", fused: true }), 64)
      .filter(isExpert)
      .map(({ label }) => label);
    expect(labels).toEqual(["order of experts", "gate and up, grouped gemm", "grouped gemm"]);
  });

  it("of plain floats keep their bits in medium batches, and the order serves the others alone", () => {
    const files = launches(contextOf({ ...MIXTURE, downType: "F32" }), 16)
      .filter(({ file }) => file.includes("expert-order") || file.includes("grouped"))
      .map(({ file }) => file);
    expect(files).toEqual(["matmul/expert-order", "matmul/grouped-gemm", "matmul/grouped-gemv-float"]);
  });

  it("take the same tiles in the order and in the matmuls, and blocks for all of them", () => {
    const context = contextOf(MIXTURE);
    for (const [tokens, tile, tiles] of [
      [16, 16, 19],
      [64, 32, 23],
      [512, 128, 31],
    ]) {
      const size = sizeOf(tokens);
      const [order, ...matmuls] = launches(context, tokens).filter(isExpert);
      expect(order.sized?.(size)).toEqual({ tile_tokens: tile });
      for (const { variants, choose, grid } of matmuls) {
        expect(variants[choose?.(size) ?? 0].defines["TOKENS"], `${tokens} tokens`).toBe(tile);
        expect(grid(size)[1], `${tokens} tokens`).toBe(tiles);
      }
    }
  });

  it("are wide products on sm_90, from tiles of 64 on and of quantized weights", () => {
    const files = (wanted: MixtureCase, tokens: number): readonly string[] =>
      launches(contextOf(wanted, false, "sm_90"), tokens)
        .map(({ file }) => file)
        .filter((file) => file.includes("grouped") || file.includes("slot-rows"));
    const [rows, wide, narrow] = ["rows/slot-rows", "matmul/grouped-wide", "matmul/grouped-gemm"];
    expect(files(MIXTURE, 200)).toEqual([rows, wide, rows, wide]);
    expect(files(MIXTURE, 64)).toEqual([narrow, narrow]);
    expect(files({ ...MIXTURE, type: "F16" }, 200)).toEqual([rows, narrow, rows, narrow]);
  });

  it("fill every member of every kernel's argument, within what a block can share", () => {
    const more: MixtureCase = { ...MIXTURE, biases: true, scales: true, weighsInput: true };
    for (const context of [contextOf(MIXTURE), contextOf(more), contextOf(more, false, "sm_90")]) {
      for (const launch of launches(context, 200)) {
        const source = loadKernelSource(launch.file);
        const given = Object.keys({ ...launch.arguments, ...launch.sized?.(sizeOf(200)) }).toSorted();
        for (const { kernel, sharedBytes = 0 } of launch.variants) {
          const { fields } = source.kernel(kernel).layout;
          expect(given, `${launch.file} ${kernel}`).toEqual(fields.map(({ name }) => name).toSorted());
          expect(sharedBytes).toBeLessThan(H200.sharedBytes);
        }
      }
    }
  });

  it("are not sorted in small batches and in deterministic mode", () => {
    for (const [deterministic, tokens] of [
      [false, 8],
      [true, 300],
    ] as const)
      expect(launches(contextOf(MIXTURE, deterministic), tokens).filter(({ file }) => /order|gemm/.test(file))).toEqual(
        [],
      );
  });
});
