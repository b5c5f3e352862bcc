// Blocks of the KV cache that are copied on every backend, `reference` included: a copy goes on as its original does, to
// the bit, neither sees what is written to the other, and steps and copies take effect in the order of asking.

import { describe, expect, it } from "vitest";
import type {
  Backend,
  CompiledProgram,
  KvCache,
  KvCacheType,
  OutputRow,
  StepInput,
} from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { Dice } from "../support/dice.js";
import { hiddenOf, inputTable, type ProgramCase, withProgram } from "./harness.js";
import { describeSubjects } from "./subjects.js";

const HEADS = 12;
const KV_HEADS = 4;
const KEY_WIDTH = 32;
const VALUE_WIDTH = 96;
const OUTPUT_WIDTH = HEADS * VALUE_WIDTH;
const TOKENS = 60;
const BLOCK_TOKENS = 16;
const BLOCKS = 12;
const LAYERS = 3;
const TYPES: readonly KvCacheType[] = ["f32", "f16", "q8_0"];

/** Each layer asks with what the one before it found, so that a block which lacks any layer shows. */
function copyCase(type: KvCacheType): ProgramCase {
  const queryColumns = HEADS * KEY_WIDTH;
  const keyColumns = KV_HEADS * KEY_WIDTH;
  const valueColumns = KV_HEADS * VALUE_WIDTH;
  const width = queryColumns + LAYERS * (keyColumns + valueColumns);
  return {
    vocabularySize: TOKENS,
    kv: { layers: LAYERS, kvHeads: KV_HEADS, keyWidth: KEY_WIDTH, valueWidth: VALUE_WIDTH },
    kvCacheType: type,
    blockTokens: BLOCK_TOKENS,
    blocks: BLOCKS,
    weights: { inputs: inputTable(new Dice(5), width, TOKENS, 1.5) },
    build: (graph) => {
      const input = graph.embed("inputs", width, TOKENS);
      const options = {
        heads: HEADS,
        kvHeads: KV_HEADS,
        keyWidth: KEY_WIDTH,
        valueWidth: VALUE_WIDTH,
        scale: 1 / Math.sqrt(KEY_WIDTH),
      };
      let found = input;
      for (let layer = 0; layer < LAYERS; layer++) {
        const start = queryColumns + layer * (keyColumns + valueColumns);
        const query = graph.columns(found, "query", 0, queryColumns);
        const key = graph.columns(input, "key", start, keyColumns);
        const value = graph.columns(input, "value", start + keyColumns, valueColumns);
        found = graph.attention(query, key, value, { layer, ...options });
      }
      return { hidden: graph.selectRows(found, "outputs") };
    },
  };
}

const ORIGINAL = [5, 2, 7];
const COPY = [0, 9, 4];
const THIRD = [3, 11, 1];
const PAIRS = pairsOf(ORIGINAL, COPY);

function pairsOf(from: readonly number[], to: readonly number[]): Int32Array {
  return Int32Array.from(from.flatMap((block, index) => [block, to[index]]));
}

/** `count` tokens of the sequence in `blocks`, from position `first` on; `seed` tells one text from another. */
function stepOf(blocks: readonly number[], first: number, count: number, seed = 0): StepInput {
  const positions = Int32Array.from({ length: count }, (_, index) => first + index);
  return {
    tokens: positions.map((position) => (position * 7 + seed * 11) % TOKENS),
    positions,
    sequenceOffsets: Int32Array.of(0, count),
    blockTables: [Int32Array.from(blocks)],
    outputs: [{ row: count - 1, want: { kind: "hidden" } }],
  };
}

const PROMPT_TOKENS = 37;
const prompt = (blocks: readonly number[], seed = 0): StepInput => stepOf(blocks, 0, PROMPT_TOKENS, seed);
const nextToken = (blocks: readonly number[]): StepInput => stepOf(blocks, PROMPT_TOKENS, 1);

function valuesOf(rows: readonly OutputRow[]): Float32Array {
  return hiddenOf(rows, OUTPUT_WIDTH);
}

interface Maker {
  create(): Backend;
}

function describeCopies({ create }: Maker): void {
  /** Runs in a program over a fresh cache; `run` gives the hidden state of a step's last token. */
  async function withCache(
    type: KvCacheType,
    use: (
      run: (step: StepInput) => Promise<Float32Array>,
      cache: KvCache,
      compiled: CompiledProgram,
      backend: Backend,
    ) => Promise<void>,
  ): Promise<void> {
    await using backend = create();
    await withProgram(backend, copyCase(type), async (compiled, cache) => {
      if (cache === undefined) throw new Error("the case has a cache");
      await use(async (step) => valuesOf(await compiled.run(step, cache)), cache, compiled, backend);
    });
  }

  it.each(TYPES)(
    "go on as their originals do, and neither sees what is written to the other, with %s",
    async (type) => {
      await withCache(type, async (run, cache) => {
        await run(prompt(ORIGINAL));
        cache.copyBlocks(PAIRS);
        const expected = await run(nextToken(ORIGINAL));
        expect(expected.every(Number.isFinite)).toBe(true);
        expect(await run(nextToken(COPY))).toEqual(expected);

        // Another end of the same beginning, from the middle of a copied block on.
        const other = await run(stepOf(COPY, 20, 17, 1));
        const changed = await run(nextToken(COPY));
        expect(changed).not.toEqual(expected);
        expect(await run(nextToken(ORIGINAL))).toEqual(expected);
        expect(await run(stepOf(ORIGINAL, 20, 17, 1))).toEqual(other);
        await run(prompt(ORIGINAL, 2));
        expect(await run(nextToken(COPY))).toEqual(changed);
      });
    },
  );

  it("take effect between the steps that were launched before and after, awaited or not", async () => {
    await withCache("f16", async (run, cache) => {
      // Also what was never loaded is loaded by a step under way: the first round is cold, the second is not.
      for (let round = 0; round < 2; round++) {
        const found = [run(prompt(ORIGINAL)), run(prompt(THIRD, 1))];
        cache.copyBlocks(PAIRS);
        found.push(run(nextToken(COPY)), run(nextToken(ORIGINAL)));
        // What the step before reads is overwritten, and what the step after reads has been.
        cache.copyBlocks(pairsOf(THIRD, ORIGINAL));
        found.push(run(nextToken(ORIGINAL)));
        cache.copyBlocks(pairsOf(COPY, ORIGINAL));
        found.push(run(nextToken(ORIGINAL)));
        const [, , first, second, third, again] = await Promise.all(found);
        await run(prompt([6, 8, 10], 1));
        expect(second).toEqual(first);
        expect(third).toEqual(await run(nextToken([6, 8, 10])));
        expect(third).not.toEqual(first);
        expect(again).toEqual(first);
      }
    });
  });

  it("are made for steps under way when their cache is disposed", async () => {
    await withCache("f16", async (run, cache, compiled) => {
      await run(prompt(ORIGINAL));
      const expected = await run(nextToken(ORIGINAL));
      const outcomes = [run(prompt(ORIGINAL))];
      cache.copyBlocks(PAIRS);
      outcomes.push(run(nextToken(COPY)));
      cache[Symbol.dispose]();
      expect((await Promise.all(outcomes))[1]).toEqual(expected);
      expect(() => cache.copyBlocks(PAIRS)).toThrow(expect.objectContaining({ code: "DISPOSED" }));
      await expect(compiled.run(nextToken(COPY), cache)).rejects.toMatchObject({ code: "DISPOSED" });
    });
  });

  it.each(TYPES)("go with a cache that grows, with %s", async (type) => {
    await withCache(type, async (run, cache, compiled, backend) => {
      await run(prompt(ORIGINAL));
      const expected = await run(nextToken(ORIGINAL));
      await run(prompt(ORIGINAL));
      using grown = backend.createKvCache({ ...cache.options, blocks: 3 * BLOCKS });
      grown.copyFrom(cache, Math.max(...ORIGINAL) + 1);
      cache[Symbol.dispose]();
      const next = async (step: StepInput): Promise<Float32Array> => valuesOf(await compiled.run(step, grown));
      expect(await next(nextToken(ORIGINAL))).toEqual(expected);
      // The added blocks are as good as the others.
      grown.copyBlocks(pairsOf(ORIGINAL, [BLOCKS, 3 * BLOCKS - 1, 2 * BLOCKS]));
      expect(await next(nextToken([BLOCKS, 3 * BLOCKS - 1, 2 * BLOCKS]))).toEqual(expected);
    });
  });

  it("refuse a cache of another shape, and more blocks than there are", async () => {
    await withCache("f16", async (_run, cache, _compiled, backend) => {
      using other = backend.createKvCache({ ...cache.options, layers: LAYERS - 1 });
      using larger = backend.createKvCache({ ...cache.options, blocks: 2 * BLOCKS });
      const refused = expect.objectContaining({ code: "BACKEND_STEP" });
      expect(() => other.copyFrom(cache, 1)).toThrow(refused);
      for (const blocks of [BLOCKS + 1, -1, 0.5, Number.NaN])
        expect(() => larger.copyFrom(cache, blocks)).toThrow(refused);
      cache[Symbol.dispose]();
      expect(() => larger.copyFrom(cache, 1)).toThrow(expect.objectContaining({ code: "DISPOSED" }));
    });
  });

  it.each<[string, Int32Array]>([
    ["an odd number of blocks", Int32Array.of(1, 2, 3)],
    ["a source beyond the cache", Int32Array.of(BLOCKS, 2)],
    ["a target beyond the cache", Int32Array.of(1, BLOCKS)],
    ["a negative block", Int32Array.of(1, -1)],
    ["a block onto itself", Int32Array.of(4, 4)],
    ["a target that is a source later", Int32Array.of(1, 2, 2, 3)],
    ["a target that was a source", Int32Array.of(1, 2, 3, 1)],
    ["two sources for one target", Int32Array.of(1, 2, 3, 2)],
    ["an array of another kind", [1, 2] as unknown as Int32Array],
  ])("rejects %s and copies nothing", async (_what, pairs) => {
    await withCache("f32", async (run, cache) => {
      await run(prompt(ORIGINAL));
      const expected = await run(nextToken(ORIGINAL));
      expect(() => cache.copyBlocks(pairs)).toThrow(
        expect.objectContaining({
          code: "BACKEND_STEP",
          message: expect.stringMatching(/^\[kv-cache\] pairs.*: expected .*, found /),
        }),
      );
      cache.copyBlocks(new Int32Array(0));
      expect(await run(nextToken(ORIGINAL))).toEqual(expected);
    });
  });
}

describe("reference", () => {
  describeCopies({ create: () => new ReferenceBackend() });
});
describeSubjects(describeCopies, { waveSize: 64 });
