// Sliding windows and chunks whose blocks are released once no query sees them: sequences of a model with layers of all
// kinds compute, to the bit, what they compute in a cache that keeps everything, whatever they share and however few
// blocks there are.

import { describe, expect, it } from "vitest";
import type { Backend, CompiledProgram } from "../../src/backends/contract.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { kvGroups } from "../../src/graph/cache-groups.js";
import type { ValueId } from "../../src/graph/operation.js";
import { kvShapeOf } from "../../src/graph/program.js";
import { Dice } from "../support/dice.js";
import { computeWhole, type GivenText, GroupedServing, type TextRows } from "./grouped-serving.js";
import {
  inputTable,
  normalisedError,
  type ProgramCase,
  programOf,
  randomWeight,
  unsupportedReason,
  withProgram,
} from "./harness.js";
import { describeSubjects } from "./subjects.js";

const WIDTH = 32;
const HEADS = 2;
const VOCABULARY = 64;
const BLOCK_TOKENS = 8;
const WINDOW = 20;
const CHUNK = 44;
const PREFILL = 32;
const CONTEXT = 256;
/** Queries and weights of prefill are f16 in fast mode. */
const TOLERANCE = 1e-6;

/** A layer with two query heads; `kvOf` reads the cache of another. */
interface Layer {
  readonly kvHeads: number;
  readonly headWidth: number;
  readonly window?: number;
  readonly chunk?: number;
  readonly kvOf?: number;
}

/** Alike for every backend. */
const EVEN: readonly Layer[] = [
  { kvHeads: 1, headWidth: 32 },
  { kvHeads: 1, headWidth: 32, window: WINDOW },
  { kvHeads: 1, headWidth: 32 },
  { kvHeads: 1, headWidth: 32, window: WINDOW },
];
/** Heads of two sizes, chunks, and a layer that uses the cache of another. */
const MIXED: readonly Layer[] = [
  { kvHeads: 2, headWidth: 32, window: WINDOW },
  { kvHeads: 1, headWidth: 64 },
  { kvHeads: 1, headWidth: 32, chunk: CHUNK },
  { kvHeads: 2, headWidth: 32, window: WINDOW, kvOf: 0 },
];

function caseOf(layers: readonly Layer[]): ProgramCase {
  const dice = new Dice(5);
  const stored = layers.filter(({ kvOf }) => kvOf === undefined);
  const matrix = (inputs: number, outputs: number) =>
    randomWeight(dice, "F32", [inputs, outputs], 1 / Math.sqrt(inputs));
  const weights = layers.flatMap(({ kvHeads, headWidth, kvOf }, layer) => [
    [`${layer}.q.weight`, matrix(WIDTH, HEADS * headWidth)] as const,
    ...(kvOf === undefined ? [[`${layer}.kv.weight`, matrix(WIDTH, 2 * kvHeads * headWidth)] as const] : []),
    [`${layer}.out.weight`, matrix(HEADS * headWidth, WIDTH)] as const,
  ]);
  return {
    vocabularySize: VOCABULARY,
    kv: kvShapeOf(stored.map(({ kvHeads, headWidth }) => ({ kvHeads, keyWidth: headWidth, valueWidth: headWidth }))),
    kvCacheType: "f16",
    blockTokens: BLOCK_TOKENS,
    blocks: CONTEXT / BLOCK_TOKENS,
    weights: { inputs: inputTable(dice, WIDTH, VOCABULARY), ...Object.fromEntries(weights) },
    build: (graph) => {
      let state: ValueId = graph.embed("inputs", WIDTH, VOCABULARY);
      const cacheLayers = new Map<number, number>();
      for (const [layer, { kvHeads, headWidth, kvOf, ...reach }] of layers.entries()) {
        const query = graph.matmul(state, `${layer}.q`, { inputs: WIDTH, outputs: HEADS * headWidth });
        const cacheLayer = cacheLayers.get(kvOf ?? -1) ?? cacheLayers.size;
        const widths = { keyWidth: headWidth, valueWidth: headWidth, scale: 1 / Math.sqrt(headWidth) };
        const options = { layer: cacheLayer, heads: HEADS, kvHeads, ...widths, ...reach };
        if (kvOf === undefined) {
          cacheLayers.set(layer, cacheLayer);
          const width = kvHeads * headWidth;
          const both = graph.matmul(state, `${layer}.kv`, { inputs: WIDTH, outputs: 2 * width });
          graph.kvWrite(cacheLayer, graph.columns(both, "key", 0, width), graph.columns(both, "value", width, width));
        }
        const attended = graph.attend(query, options);
        const out = graph.matmul(attended, `${layer}.out`, { inputs: HEADS * headWidth, outputs: WIDTH });
        state = graph.add(state, out);
      }
      return { hidden: graph.selectRows(state, "outputs") };
    },
  };
}

function tokensOf(seed: number, count: number): Int32Array {
  const dice = new Dice(seed);
  return Int32Array.from({ length: count }, () => dice.below(VOCABULARY));
}

function text(prompt: Int32Array, seed: number, ...counts: readonly number[]): GivenText {
  return { prompt, continuations: counts.map((count, choice) => tokensOf(seed * 100 + choice, count)) };
}

/** Both with their length, so that a missing row shows. */
function bitsOf(rows: TextRows): readonly (readonly Uint32Array[])[] {
  return rows.map((own) => own.map((values) => new Uint32Array(values.buffer, values.byteOffset, values.length)));
}

function errorOf(found: readonly Float32Array[], expected: readonly Float32Array[]): number {
  const joined = (rows: readonly Float32Array[]): Float32Array => Float32Array.from(rows.flatMap((row) => [...row]));
  return normalisedError(joined(found), joined(expected));
}

class Bench {
  constructor(
    readonly backend: Backend,
    readonly compiled: CompiledProgram,
    readonly wanted: ProgramCase,
    /** Whether results do not depend on the batch. */
    readonly isExact: boolean,
  ) {}

  serving(blocksOf: (reach: { readonly window?: number; readonly chunk?: number }) => number): GroupedServing {
    const { kv } = programOf(this.wanted);
    const blocks = kvGroups(kv).map(blocksOf);
    const options = { kv, kvCacheType: "f16", blockTokens: BLOCK_TOKENS, blocks, prefillTokens: PREFILL } as const;
    return new GroupedServing(this.backend, this.compiled, { ...options, vocabularySize: VOCABULARY });
  }
}

/** Serves the texts and compares them with a run that keeps all blocks; returns the cached tokens of each. */
async function expectSame(
  { backend, compiled, wanted, isExact }: Bench,
  serving: GroupedServing,
  texts: readonly GivenText[],
): Promise<readonly number[]> {
  const served = await serving.serve(texts);
  const { kv } = programOf(wanted);
  const options = { ...kv, blocks: CONTEXT / BLOCK_TOKENS, blockTokens: BLOCK_TOKENS, type: "f16" } as const;
  for (const [index, { rows }] of served.entries()) {
    using whole = backend.createKvCache(options);
    const expected = await computeWhole(compiled, whole, texts[index]);
    if (isExact) expect(bitsOf(rows)).toEqual(bitsOf(expected));
    else for (const [choice, own] of rows.entries()) expect(errorOf(own, expected[choice])).toBeLessThan(TOLERANCE);
  }
  return served.map(({ cachedTokens }) => cachedTokens);
}

async function onBench({ create, isExact }: Way, layers: readonly Layer[], use: (bench: Bench) => Promise<void>) {
  await using backend = create();
  const wanted = caseOf(layers);
  const reason = unsupportedReason(backend, wanted);
  if (reason !== undefined) return reason;
  await withProgram(backend, wanted, (compiled) => use(new Bench(backend, compiled, wanted, isExact)));
  return undefined;
}

/** A backend in one of its modes. */
interface Way {
  readonly create: () => Backend;
  readonly isExact: boolean;
}

const MODELS = [
  ["layers of one shape", EVEN],
  ["heads of two sizes, chunks and a shared layer", MIXED],
] as const;

function behaves(way: Way, models: readonly (typeof MODELS)[number][] = MODELS): void {
  describe.each(models)("%s", (_title, layers) => {
    it("holds the blocks that queries see and no others", async ({ skip }) => {
      const reason = await onBench(way, layers, async (bench) => {
        const bound = (reached: number): number => Math.ceil((reached + PREFILL) / BLOCK_TOKENS) + 1;
        using serving = bench.serving(({ window, chunk = window }) => (chunk === undefined ? 32 : bound(chunk)));
        expect(await expectSame(bench, serving, [text(tokensOf(1, 170), 1, 50)])).toEqual([0]);
        for (const [group, { window, chunk = window }] of serving.pools.reaches.entries()) {
          // The last token of a text is not computed.
          if (chunk === undefined) expect(serving.mostHeld[group]).toBe(Math.ceil(219 / BLOCK_TOKENS));
          else expect(serving.mostHeld[group]).toBeLessThanOrEqual(bound(chunk));
        }
      });
      skip(reason !== undefined, reason);
    });

    it("finds a text again, longer ones too, and computes anew what a window has lost", async ({ skip }) => {
      const reason = await onBench(way, layers, async (bench) => {
        using serving = bench.serving(({ window, chunk = window }) => (chunk === undefined ? 64 : 12));
        const prompt = tokensOf(2, 130);
        const longer = Int32Array.from([...prompt, ...tokensOf(3, 50)]);
        const diverging = Int32Array.from([...prompt.subarray(0, 40), ...tokensOf(4, 60)]);
        expect(await expectSame(bench, serving, [text(prompt, 2, 9)])).toEqual([0]);
        expect(await expectSame(bench, serving, [text(prompt, 2, 9)])).toEqual([128]);
        expect(await expectSame(bench, serving, [text(longer, 3, 9)])).toEqual([128]);
        // Full attention still has the first 40 tokens, but windows have lost theirs.
        expect(await expectSame(bench, serving, [text(diverging, 4, 9)])).toEqual([0]);
        expect(await expectSame(bench, serving, [text(diverging, 4, 9)])).toEqual([96]);
      });
      skip(reason !== undefined, reason);
    });

    it("serves a crowd that forks, shares beginnings and is preempted", async ({ skip }) => {
      const reason = await onBench(way, layers, async (bench) => {
        using serving = bench.serving(({ window, chunk = window }) => (chunk === undefined ? 28 : 17));
        const beginning = tokensOf(6, 50);
        const texts = [20, 3, 41, 9, 30].map((more, index) =>
          text(
            Int32Array.from([...beginning, ...tokensOf(7 + index, more)]),
            index,
            ...(index % 2 === 0 ? [6, 9] : [90]),
          ),
        );
        await expectSame(bench, serving, texts);
        expect(serving.scheduler.preemptions).toBeGreaterThan(0);
        for (const pool of serving.pools.groups) expect(pool.availableBlocks).toBe(pool.blocks);
      });
      skip(reason !== undefined, reason);
    });
  });
}

describe("reference", () => {
  behaves({ create: () => new ReferenceBackend(), isExact: true });
});

describeSubjects(
  (subject) => {
    // Fast mode has other kernels for prompts, which read whole tiles of positions, and those of deterministic mode for the
    // rest: it stands for both on slow subjects.
    for (const isExact of subject.cases([true], [])) {
      behaves({ create: () => subject.create({ deterministic: true }), isExact });
    }
    if (!subject.promptsInHalves) return;
    describe("in fast mode", () => {
      behaves({ create: () => subject.create(), isExact: false }, subject.cases(MODELS, MODELS.slice(1)));
    });
  },
  { waveSize: 32 },
);
