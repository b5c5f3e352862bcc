import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import type { KvCacheType, OutputRequest, OutputRow, StepInput, Support } from "../../../src/backends/contract.js";
import { ReferenceKvCache } from "../../../src/backends/reference/kv-cache.js";
import { DisposedError } from "../../../src/errors.js";
import type { Operation } from "../../../src/graph/operation.js";
import { GgufLoader } from "../../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../../src/plan/execution-plan.js";
import { codecFor } from "../../../src/quant/codec.js";
import type { SupportedTypeName } from "../../../src/quant/layout.js";

const MODEL = new URL("../../fixtures/models/fable-3m-qwen2-Q4_K_M.gguf", import.meta.url).pathname;
const TOKENS = Int32Array.of(5, 17, 300, 42, 7, 901, 12, 64, 128, 33, 2);
const OTHER = Int32Array.of(9, 9, 10, 11, 500);

function single(tokens: Int32Array, position: number, table: Int32Array, outputs: readonly OutputRequest[]): StepInput {
  return {
    tokens,
    positions: Int32Array.from(tokens, (_, index) => position + index),
    sequenceOffsets: Int32Array.of(0, tokens.length),
    blockTables: [table],
    outputs,
  };
}

function logitsOf(row: OutputRow | undefined): Float32Array {
  if (row?.kind !== "logits") throw new TypeError("not logits");
  return row.logits;
}

function furthest(left: Float32Array, right: Float32Array): number {
  expect(left.length).toBe(right.length);
  return left.reduce((most, value, index) => Math.max(most, Math.abs(value - right[index])), 0);
}

describe("ExecutionPlan", () => {
  let loader: GgufLoader;
  let plan: ExecutionPlan;
  const backend = new ReferenceBackend();

  beforeAll(async () => {
    loader = await GgufLoader.open(MODEL);
    plan = ExecutionPlan.fromLoader(loader, backend, { blockTokens: 4 });
  });
  afterAll(async () => {
    await plan[Symbol.asyncDispose]();
    await loader[Symbol.asyncDispose]();
  });

  async function decode(tokens: Int32Array): Promise<Float32Array> {
    using kvCache = plan.createKvCache(64);
    return await plan.decode(tokens, 0, kvCache);
  }

  it("is made of handles alone, and the first step loads every tensor once", async () => {
    await using fresh = await GgufLoader.open(MODEL);
    await using lazyPlan = ExecutionPlan.fromLoader(fresh, backend);
    expect(lazyPlan.loadingStats()).toMatchObject({ loadedTensors: 0, cachedBytes: 0 });
    expect(lazyPlan.layers.map(({ name }) => name).slice(0, 2)).toEqual(["embedding", "layer 0"]);
    expect(lazyPlan.layers.flatMap((layer) => layer.validate())).toEqual([]);
    using kvCache = lazyPlan.createKvCache(8);
    await lazyPlan.decode(TOKENS.slice(0, 3), 0, kvCache);
    const { totalTensors, loadedTensors, unloadedTensors } = lazyPlan.loadingStats();
    expect(loadedTensors).toBe(totalTensors);
    expect(unloadedTensors).toBe(0);
    expect(fresh.cache.counts.misses).toBe(totalTensors);
    expect(fresh.clearGpuCache()).toBe(0);
  });

  it("gives the same logits in one step and token by token", async () => {
    using kvCache = plan.createKvCache(64);
    let last: Float32Array = new Float32Array();
    for (const [position, token] of TOKENS.entries()) last = await plan.decode(Int32Array.of(token), position, kvCache);
    expect(last).toEqual(await decode(TOKENS));
  });

  it("keeps sequences of a mixed step apart, whatever blocks they have", async () => {
    using kvCache = plan.createKvCache(64);
    const tables = [Int32Array.of(7, 3, 9), Int32Array.of(0, 8)];
    const want = { kind: "logits" } as const;
    await plan.step(single(TOKENS.slice(0, 6), 0, tables[0], []), kvCache);
    const rows = await plan.step(
      {
        tokens: Int32Array.of(...TOKENS.slice(6), ...OTHER),
        positions: Int32Array.of(6, 7, 8, 9, 10, 0, 1, 2, 3, 4),
        sequenceOffsets: Int32Array.of(0, 5, 10),
        blockTables: tables,
        outputs: [
          { row: 4, want },
          { row: 9, want },
        ],
      },
      kvCache,
    );
    expect(logitsOf(rows[0])).toEqual(await decode(TOKENS));
    expect(logitsOf(rows[1])).toEqual(await decode(OTHER));
  });

  it("lets sequences share blocks that they only read", async () => {
    using kvCache = plan.createKvCache(64);
    const want = { kind: "logits" } as const;
    await plan.step(single(TOKENS.slice(0, 8), 0, Int32Array.of(4, 5), []), kvCache);
    const tails = [TOKENS.slice(8), OTHER.slice(0, 3)];
    const rows = await plan.step(
      {
        tokens: Int32Array.of(...tails[0], ...tails[1]),
        positions: Int32Array.of(8, 9, 10, 8, 9, 10),
        sequenceOffsets: Int32Array.of(0, 3, 6),
        blockTables: [Int32Array.of(4, 5, 9), Int32Array.of(4, 5, 2)],
        outputs: [
          { row: 2, want },
          { row: 5, want },
        ],
      },
      kvCache,
    );
    expect(logitsOf(rows[0])).toEqual(await decode(TOKENS));
    expect(logitsOf(rows[1])).toEqual(await decode(Int32Array.of(...TOKENS.slice(0, 8), ...tails[1])));
  });

  it("reports a sequence that is not finite by itself, and leaves its neighbour alone", async () => {
    const kvCache = plan.createKvCache(64);
    if (!(kvCache instanceof ReferenceKvCache)) throw new TypeError("another cache");
    const want = { kind: "logits" } as const;
    await plan.step(single(TOKENS.slice(0, 4), 0, Int32Array.of(3), []), kvCache);
    const [{ keys, keyRow }] = kvCache.storage.layers;
    keys.fill(Number.NaN, 3 * 4 * keyRow, 4 * 4 * keyRow);
    const rows = await plan.step(
      {
        tokens: Int32Array.of(7, ...OTHER),
        positions: Int32Array.of(4, 0, 1, 2, 3, 4),
        sequenceOffsets: Int32Array.of(0, 1, 6),
        blockTables: [Int32Array.of(3, 5), Int32Array.of(0, 1)],
        outputs: [
          { row: 0, want },
          { row: 5, want },
        ],
      },
      kvCache,
    );
    expect(rows[0]).toMatchObject({ kind: "not-finite" });
    expect(logitsOf(rows[1])).toEqual(await decode(OTHER));
  });

  it("cuts a long prompt into steps, as decode promises", async () => {
    using kvCache = plan.createKvCache(256);
    const long = Int32Array.from({ length: 150 }, (_, index) => (index * 37) % 1000);
    const whole = await plan.decode(long, 0, kvCache);
    await plan.decode(long.slice(0, 149), 0, kvCache);
    expect(await plan.decode(long.slice(149), 149, kvCache)).toEqual(whole);
  });

  it("stops between layers when the signal aborts", async () => {
    using kvCache = plan.createKvCache(64);
    const step = single(TOKENS, 0, Int32Array.of(0, 1, 2), []);
    await expect(plan.step(step, kvCache, { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
  });

  it("rejects a cache of another shape, and one that was disposed", async () => {
    using kvCache = backend.createKvCache({ ...plan.program.kv, kvHeads: 7, blocks: 4, blockTokens: 4, type: "f32" });
    await expect(plan.decode(TOKENS, 0, kvCache)).rejects.toMatchObject({ code: "BACKEND_STEP" });
    const gone = plan.createKvCache(64);
    gone[Symbol.dispose]();
    await expect(plan.decode(TOKENS, 0, gone)).rejects.toThrow(DisposedError);
  });

  it("finishes a step whose cache is disposed meanwhile", async () => {
    const kvCache = plan.createKvCache(64);
    const pending = plan.decode(TOKENS, 0, kvCache);
    kvCache[Symbol.dispose]();
    expect(await pending).toEqual(await decode(TOKENS));
  });

  it.each([
    [{ contextTokens: -1 }, "OPTION_VALUE"],
    [{ blockTokens: 0 }, "OPTION_VALUE"],
    [{ blockTokens: 1.5 }, "OPTION_VALUE"],
    [{ kvCacheType: "q4" }, "OPTION_VALUE"],
    [{ contextToken: 5 }, "OPTION_UNKNOWN"],
  ])("rejects the configuration %j", (config, code) => {
    expect(() => ExecutionPlan.fromLoader(loader, backend, config as object)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  it("rejects what the backend cannot do when the plan is built, and leaves nothing behind", async () => {
    class Choosy extends ReferenceBackend {
      override supports(operation: Operation): Support {
        return operation.kind === "rope" ? { reason: "nothing turns here" } : true;
      }
    }
    await using own = await GgufLoader.open(MODEL);
    expect(() => ExecutionPlan.fromLoader(own, new Choosy())).toThrow(
      expect.objectContaining({
        code: "BACKEND_UNSUPPORTED",
        message: expect.stringMatching(/rope.*nothing turns here/),
      }),
    );
    await using small = await GgufLoader.open(MODEL, { cacheBudgetBytes: 1000 });
    expect(() => ExecutionPlan.fromLoader(small, backend)).toThrow(expect.objectContaining({ code: "TENSOR_BUDGET" }));
  });

  it("is ended by its loader's disposal, steps under way included", async () => {
    const own = await GgufLoader.open(MODEL);
    const orphan = ExecutionPlan.fromLoader(own, backend);
    const kvCache = orphan.createKvCache(64);
    const pending = orphan.decode(TOKENS, 0, kvCache);
    const outcome = Promise.allSettled([pending]);
    await own[Symbol.asyncDispose]();
    const [{ status }] = await outcome;
    expect(status).toBe("rejected");
    await expect(orphan.decode(TOKENS, 0, kvCache)).rejects.toThrow(DisposedError);
  });

  it("runs steps of one plan side by side", async () => {
    const alone = [await decode(TOKENS), await decode(OTHER)];
    const together = await Promise.all([decode(TOKENS), decode(OTHER)]);
    expect(together).toEqual(alone);
  });

  it("returns candidates in the order of the logits, with the log-sum over all", async () => {
    using kvCache = plan.createKvCache(64);
    const logits = await decode(TOKENS);
    const request = { row: TOKENS.length - 1, want: { kind: "candidates", count: 7 } } as const;
    const [row] = await plan.step(single(TOKENS, 0, Int32Array.of(0, 1, 2), [request]), kvCache);
    if (row?.kind !== "candidates") throw new TypeError("not candidates");
    const ranked = [...logits.keys()].toSorted((left, right) => logits[right] - logits[left] || left - right);
    expect([...row.ids]).toEqual(ranked.slice(0, 7));
    expect([...row.logits]).toEqual(ranked.slice(0, 7).map((id) => logits[id]));
    const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
    expect(row.logSum).toBeCloseTo(total, 5);
  });

  it("applies bias and mask before it chooses candidates", async () => {
    using kvCache = plan.createKvCache(64);
    const allowMask = new Uint32Array(Math.ceil(plan.program.vocabularySize / 32));
    allowMask[0] = 0b1010_0000;
    allowMask[3] = 0b1;
    const bias = { ids: Int32Array.of(96), values: Float32Array.of(1000) };
    const request = { row: 10, want: { kind: "candidates", count: 5 }, bias, allowMask } as const;
    const [row] = await plan.step(single(TOKENS, 0, Int32Array.of(0, 1, 2), [request]), kvCache);
    if (row?.kind !== "candidates") throw new TypeError("not candidates");
    expect(row.ids[0]).toBe(96);
    expect(row.ids.slice(1, 3).toSorted((left, right) => left - right)).toEqual(Int32Array.of(5, 7));
    expect(row.logits[3]).toBe(Number.NEGATIVE_INFINITY);
  });

  it("returns hidden states of the model's width", async () => {
    using kvCache = plan.createKvCache(64);
    const request = { row: 3, want: { kind: "hidden" } } as const;
    const [row] = await plan.step(single(TOKENS, 0, Int32Array.of(0, 1, 2), [request]), kvCache);
    if (row?.kind !== "hidden") throw new TypeError("not hidden");
    expect(row.values).toHaveLength(plan.parameters.embeddingWidth);
    expect(row.values.every((value) => Number.isFinite(value))).toBe(true);
  });

  it("looks embeddings up as the file has them", async () => {
    const table = loader.file.tensors.get("token_embd.weight");
    if (table === undefined) throw new TypeError("no table");
    const bytes = new Uint8Array(table.sizeBytes);
    await loader.file.readTensor(table, bytes);
    const values = new Float32Array(table.elements);
    const codec = codecFor(table.layout.name as SupportedTypeName);
    codec.decode(bytes, 0, values, 0, bytes.length / table.layout.blockBytes);
    const width = plan.parameters.embeddingWidth;
    const rows = await plan.embeddingLookup(Int32Array.of(3, 1000, 3));
    expect(rows.subarray(0, width)).toEqual(values.subarray(3 * width, 4 * width));
    expect(rows.subarray(width, 2 * width)).toEqual(values.subarray(1000 * width, 1001 * width));
    expect(rows.subarray(2 * width)).toEqual(rows.subarray(0, width));
    await expect(plan.embeddingLookup(Int32Array.of(plan.program.vocabularySize))).rejects.toMatchObject({
      code: "TOKENIZER_TOKEN",
    });
  });

  it.each<[KvCacheType, number]>([
    ["f16", 0.02],
    ["q8_0", 0.3],
  ])("rounds what a %s cache would round, and little more", async (kvCacheType, bound) => {
    await using narrow = ExecutionPlan.fromLoader(loader, backend, { kvCacheType });
    using kvCache = narrow.createKvCache(64);
    const distance = furthest(await narrow.decode(TOKENS, 0, kvCache), await decode(TOKENS));
    expect(distance).toBeGreaterThan(0);
    expect(distance).toBeLessThan(bound);
  });

  it("counts memory without loading anything", () => {
    const { kvHeads, keyWidth, valueWidth, layers } = plan.program.kv;
    expect(plan.kvCacheBytes(8)).toBe(layers * kvHeads * (keyWidth + valueWidth) * 8 * 4);
    expect(plan.memory().weightBytes).toBeGreaterThan(1e6);
    expect(plan.memory().residentWeightBytes).toBeGreaterThan(plan.memory().weightBytes);
  });

  it("rejects use after dispose, and lets its tensors go", async () => {
    await using own = await GgufLoader.open(MODEL);
    const short = ExecutionPlan.fromLoader(own, backend);
    const kvCache = short.createKvCache(16);
    await short.decode(TOKENS, 0, kvCache);
    await short[Symbol.asyncDispose]();
    await expect(short.decode(TOKENS, 0, kvCache)).rejects.toThrow(DisposedError);
    expect(own.clearGpuCache()).toBeGreaterThan(0);
  });
});
