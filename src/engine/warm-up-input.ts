// A step of a given shape on synthetic tokens. Invariants: it writes only to blocks that were free, each in one block
// table, and reads only one further block that it took, so that no sequence is affected.

import type { OutputRequest, StepInput, StepShape } from "../backends/contract.js";
import type { BlockPool } from "../kv-cache/block-pool.js";

/** As many candidates as default sampling requests. */
const CANDIDATES = 40;
const TOKEN_STRIDE = 97;

interface WarmUpInput {
  readonly step: StepInput;
  /** Blocks to release after the step. */
  readonly blocks: readonly number[];
}

/**
 * A step's input with the blocks it uses; undefined if too few are free, because cached prefixes are not evicted for
 * it.
 */
export function warmUpInput(
  { decoding, prompt, longest }: StepShape,
  pool: BlockPool,
  vocabularySize: number,
): WarmUpInput | undefined {
  const { blockTokens, freeBlocks } = pool;
  const promptBlocks = Math.ceil(prompt / blockTokens);
  const wanted = 1 + decoding + promptBlocks;
  const blocks = wanted <= freeBlocks ? pool.allocate(wanted) : undefined;
  if (blocks === undefined) return undefined;
  const [read, ...written] = blocks;
  const decodingPositions = Array.from({ length: decoding }, (_, sequence) =>
    sequence === 0 ? longest - 1 : sequence % blockTokens,
  );
  const tables = decodingPositions.map((position, sequence) => {
    const table = new Int32Array(Math.floor(position / blockTokens) + 1).fill(read);
    table[table.length - 1] = written[sequence];
    return table;
  });
  const positions = Int32Array.from([...decodingPositions, ...Array.from({ length: prompt }, (_, index) => index)]);
  const rows = prompt > 0 ? [...decodingPositions.keys(), positions.length - 1] : [...decodingPositions.keys()];
  return {
    blocks,
    step: {
      tokens: positions.map((_, row) => (row * TOKEN_STRIDE + 1) % vocabularySize),
      positions,
      sequenceOffsets: Int32Array.from(
        prompt > 0
          ? [...decodingPositions.keys(), decoding, positions.length]
          : [...decodingPositions.keys(), decoding],
      ),
      blockTables: prompt > 0 ? [...tables, Int32Array.from(written.slice(decoding))] : tables,
      outputs: rows.map((row): OutputRequest => ({
        row,
        want: { kind: "candidates", count: Math.min(CANDIDATES, vocabularySize) },
      })),
    },
  };
}
