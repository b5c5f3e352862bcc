// From a model's program to launches, with no device: which there are, that every kernel gets every argument that its
// source declares, and that nothing is written outside the memory set aside for it.

import { describe, expect, it } from "vitest";
import { loadKernelSource } from "../../src/backends/gpu/kernels/kernel-source.js";
import type { LaunchSize, LaunchSpec, MemoryPlace } from "../../src/backends/gpu/lowering/launch.js";
import type { GpuLoweringOptions, LoweringContext, LoweringSize } from "../../src/backends/gpu/lowering/context.js";
import { createContext, fuseForGpu, lowerStep } from "../../src/backends/gpu/lowering/lowering.js";
import { isLaunch } from "../../src/backends/gpu/lowering/step-item.js";
import { batchClass } from "../../src/backends/gpu/lowering/matmul-selection.js";
import { exactSize } from "../../src/backends/gpu/lowering/step-bucket.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { draftPlan } from "../../src/plan/plan-draft.js";

type ScratchPlace = Exclude<MemoryPlace, { readonly space: "weight" }>;

const MODELS = {
  quantised: "../../models/fable-10m-Q4_K_M.gguf",
  plain: "../fixtures/models/fable-3m-qwen2-F16.gguf",
} as const;
const H200 = { waveSize: 32, multiprocessors: 132, sharedBytes: 227 << 10, totalBytes: 150e9 } as const;
const LIMITS = { maxTokens: 4096, maxOutputs: 256, contextTokens: 4096, blockTokens: 32, kvCacheType: "f16" } as const;

async function contextOf(
  model: keyof typeof MODELS,
  deterministic = false,
  device: GpuLoweringOptions["device"] = H200,
): Promise<LoweringContext> {
  await using loader = await GgufLoader.open(new URL(MODELS[model], import.meta.url).pathname);
  const { program } = draftPlan(loader, new ReferenceBackend(), {});
  const weights = program.weights.map(({ name }) => loader.lazy(name, new ReferenceBackend()).descriptor);
  return createContext({
    fused: fuseForGpu(program),
    weights,
    limits: LIMITS,
    device,
    kind: "cuda",
    deterministic,
  });
}

function sizeOf(tokens: number, outputs: number, longest = tokens): LaunchSize {
  return exactSize({
    tokens,
    sequences: 1,
    outputs,
    scored: outputs,
    tiles: Math.ceil(tokens / 64),
    longest,
    longestRun: tokens,
  });
}

function classOf({ tokens, outputs }: LaunchSize, blas: boolean): LoweringSize {
  return { tokens: batchClass(tokens), outputs: batchClass(outputs), blas };
}

/** What a step of this size launches, in order. */
function launched(context: LoweringContext, size: LaunchSize, blas = false): readonly string[] {
  return lowerStep(context, classOf(size, blas))
    .filter((item) => !isLaunch(item) || item.grid(size).every((blocks) => blocks > 0))
    .map(({ label }) => label);
}

/** Of steps with one token a sequence, and of others. */
const JOINED_ATTENTION = ["rope, store and attention", "attention, merged"];
const ATTENTION = ["rope and store", "attention", "attention, merged"];
const LAYER = ["gemv", ...JOINED_ATTENTION, "gemv", "gate and up", "gemv"];
const layerWithNorms = (attention: readonly string[]): readonly string[] => [
  "norm",
  "gemv",
  ...attention,
  "gemv",
  "norm",
  "gate and up",
  "gemv",
];

describe("a step", () => {
  it("of one token is six launches a layer, and the last layer's", async () => {
    const context = await contextOf("quantised");
    const layers = context.options.fused.program.kv.layers;
    const labels = launched(context, sizeOf(1, 1, 1000));
    expect(labels.slice(0, 1 + LAYER.length * (layers - 1))).toEqual([
      "embed",
      ...Array.from({ length: layers - 1 }, () => LAYER).flat(),
    ]);
    expect(labels.slice(-4)).toEqual(["input", "gemv", "score", "choose"]);
  });

  it("of several tokens, or in deterministic mode, has norms of its own", async () => {
    for (const [deterministic, tokens, attention] of [
      [false, 2, ATTENTION],
      [true, 1, JOINED_ATTENTION],
    ] as const) {
      const labels = launched(await contextOf("quantised", deterministic), sizeOf(tokens, 1, 1000));
      const layer = layerWithNorms(attention);
      expect(labels.slice(1, 1 + layer.length)).toEqual(layer);
    }
  });

  it("of a short context needs nothing put together", async () => {
    const labels = launched(await contextOf("quantised"), sizeOf(1, 1, 100));
    expect(labels).not.toContain("attention, merged");
    expect(labels).toContain("rope, store and attention");
  });

  it("of many sequences with one token each turns and stores as it attends, while there is room for parts", async () => {
    const context = await contextOf("quantised");
    const decode = (tokens: number): readonly string[] =>
      launched(context, { ...sizeOf(tokens, tokens, 300), longestRun: 1 });
    expect(decode(100)).not.toContain("rope and store");
    expect(decode(300)).toContain("rope and store");
    expect(decode(300)).not.toContain("rope, store and attention");
  });

  it("of more than eight tokens takes wide products where a device has them", async () => {
    const labels = async (tokens: number, options: object, model: keyof typeof MODELS = "quantised") =>
      launched(await contextOf(model, false, { ...H200, architecture: "sm_90", ...options }), sizeOf(tokens, 1));
    const wide = (all: readonly string[]): readonly string[] => all.filter((label) => label.includes("wide gemm"));
    expect(wide(await labels(8, {}))).toEqual([]);
    expect(new Set(wide(await labels(9, {})))).toEqual(new Set(["wide gemm", "gate and up, wide gemm"]));
    expect(wide(await labels(4096, {}))).not.toEqual([]);
    expect(await labels(300, {})).not.toContain("gemm");
    expect(wide(await labels(300, { architecture: "sm_89" }))).toEqual([]);
    expect(wide(await labels(300, { sharedBytes: 100 << 10 }))).toEqual([]);
    expect(wide(await labels(300, {}, "plain"))).toEqual([]);
  });

  it("of one token leaves its rows ready for the norms of the next matmuls where a device has kernels for it", async () => {
    const ready = async (architecture: string, deterministic = false): Promise<readonly string[]> => {
      const context = await contextOf("quantised", deterministic, { ...H200, architecture });
      const items = lowerStep(context, classOf(sizeOf(1, 1), false));
      return items.flatMap((item) => {
        if (!isLaunch(item) || item.file !== "matmul/gemv") return [];
        const { LANES = 0, PREPARED = 0, HANDED = 0, NORMED = 0 } = item.variants[0].defines;
        expect(item.variants.slice(1).every(({ defines }) => defines["LANES"] === undefined)).toBe(true);
        return [`${NORMED === 0 ? "" : "normed "}${LANES === 1 ? "lanes" : "rows"}${PREPARED}${HANDED}`];
      });
    };
    const layers = (await contextOf("quantised")).options.fused.program.kv.layers;
    const inner = ["lanes01", "lanes10", "lanes01", "lanes10"];
    const [first, ...rest] = await ready("sm_90");
    expect(first).toBe("normed rows00");
    expect(rest.slice(0, 4 * (layers - 1))).toEqual(Array.from({ length: layers - 1 }, () => inner).flat());
    for (const launches of [await ready("sm_89"), await ready("gfx942"), await ready("sm_90", true)])
      expect(launches.filter((launch) => launch.startsWith("lanes"))).toEqual([]);
  });

  it("of a deep context has attention of its own, but not in deterministic mode", async () => {
    const deep = ["rope, store and deep attention", "deep attention, merged"];
    for (const [longest, deterministic, attention] of [
      [1024, false, JOINED_ATTENTION],
      [1025, false, deep],
      [4096, false, deep],
      [4096, true, JOINED_ATTENTION],
    ] as const) {
      const labels = launched(await contextOf("quantised", deterministic), sizeOf(1, 1, longest));
      const first = labels.indexOf(attention[0]);
      expect(labels.slice(first, first + 2)).toEqual(attention);
      expect(labels.filter((label) => label.endsWith("attention"))).toEqual(
        labels.filter((label) => label === attention[0]),
      );
    }
  });

  it("never has a block write its result where another one reads", async () => {
    for (const model of ["quantised", "plain"] as const) {
      const context = await contextOf(model);
      const size = { ...sizeOf(8, 8, 100), longestRun: 1 };
      const joined = lowerStep(context.holding(size), classOf(size, false))
        .filter(isLaunch)
        .filter(({ file }) => file === "attention/decode");
      expect(joined.length).toBe(context.options.fused.program.kv.layers);
      for (const { variants, choose, arguments: given } of joined) {
        if (!variants[choose?.(size) ?? 0].kernel.endsWith("whole") || given["out"] === 0) continue;
        const [query, key, value, out] = ["query", "key", "value", "out"].map((name) => ({
          place: given[name] as ScratchPlace,
          stride: given[`${name}_stride`] as number,
        }));
        const isApart = (other: typeof out): boolean => {
          const rows = (matrix: typeof out): readonly [number, number] => [
            matrix.place.byteOffset,
            matrix.place.byteOffset + size.tokens * matrix.stride * 4,
          ];
          const [[start, end], [first, last]] = [rows(out), rows(other)];
          return end <= first || last <= start;
        };
        expect([key, value].every(isApart)).toBe(true);
        if (!isApart(query)) expect(query).toEqual(out);
      }
    }
  });

  it("without outputs leaves out what only outputs need", async () => {
    const context = await contextOf("quantised");
    const labels = launched(context, sizeOf(300, 0));
    expect(labels).not.toContain("score");
    expect(labels.at(-1)).toBe("attention, tiled");
  });

  it("of many tokens tiles, or asks the library, but for its few output rows", async () => {
    const context = await contextOf("quantised");
    const tiled = launched(context, sizeOf(64, 1));
    expect(tiled).toContain("gemm");
    expect(tiled.slice(-3)).toEqual(["gemv", "score", "choose"]);
    const library = launched(context, sizeOf(4096, 1), true);
    expect(library).toContain("BLAS matmul");
    expect(library).not.toContain("gemm");
  });

  it("in deterministic mode takes one way for every size", async () => {
    const context = await contextOf("quantised", true);
    for (const tokens of [1, 9, 512]) {
      const labels = new Set(launched(context, sizeOf(tokens, 1, 1000)));
      expect(
        [...labels].filter((label) => label.includes("tiled") || label.includes("gemm") || label.includes("BLAS")),
      ).toEqual([]);
    }
  });
});

const SIZES = [sizeOf(1, 1), sizeOf(7, 7, 1000), sizeOf(20, 20, 2000), sizeOf(200, 100), sizeOf(4096, 256)];

describe.each(Object.keys(MODELS) as (keyof typeof MODELS)[])("launches of %s weights", (model) => {
  it("fill every member of every kernel's argument", async () => {
    const context = await contextOf(model);
    for (const size of SIZES) {
      for (const library of [false, true]) {
        for (const launch of lowerStep(context.holding(size), classOf(size, library)).filter(isLaunch))
          expectWholeArgument(launch, size);
      }
    }
  });

  it("stay within the memory set aside", async () => {
    const context = await contextOf(model);
    for (const size of SIZES) {
      const own = context.holding(size);
      for (const item of lowerStep(own, classOf(size, true))) {
        const places = isLaunch(item)
          ? Object.values(item.arguments).filter((value): value is MemoryPlace => typeof value === "object")
          : [item.weights, item.inputs, item.out];
        for (const place of places) expect(isInside(own, place), `${item.label}, ${place.space}`).toBe(true);
      }
    }
  });
});

function expectWholeArgument(launch: LaunchSpec, size: LaunchSize): void {
  const source = loadKernelSource(launch.file);
  const given = Object.keys({ ...launch.arguments, ...launch.sized?.(size) }).toSorted();
  for (const { kernel } of launch.variants) {
    const { fields } = source.kernel(kernel).layout;
    expect(given, `${launch.file} ${kernel}`).toEqual(fields.map(({ name }) => name).toSorted());
  }
}

function isInside({ regions, step, constants, options }: LoweringContext, place: MemoryPlace): boolean {
  switch (place.space) {
    case "weight":
      return place.weight < options.weights.length;
    case "scratch":
      return place.byteOffset < regions.sizeBytes;
    case "blas":
      return place.byteOffset < regions.blas.sizeBytes;
    case "step":
      return place.byteOffset <= step.usedBytes(0, 0);
    case "constants":
      return place.byteOffset < constants.byteLength;
    default:
      return place satisfies never;
  }
}
