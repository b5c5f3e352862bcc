// A step of a given shape on synthetic tokens. Invariants: it writes only to blocks that were free, each in one block
// table, and reads only one further block that it took, so that no sequence is affected.

import type { OutputRequest, StepInput } from "../backends/contract.js";
import type { StepShape } from "../backends/warm-up-step.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import { ownStateSlots } from "../plan/state-slot-check.js";

/** As many candidates as default sampling requests. */
const CANDIDATES = 40;
const TOKEN_STRIDE = 97;

interface WarmUpInput {
  readonly step: StepInput;
  /** Blocks of each cache group to release after the step. */
  readonly blocks: readonly (readonly number[])[];
  /** State slots to release after the step. */
  readonly stateSlots: readonly number[];
}

/**
 * A step's input with the blocks it uses; undefined if too few are free, because cached prefixes are not evicted for
 * it.
 */
export function warmUpInput(
  { decoding, prompt, longest }: StepShape,
  { groups, blockTokens, states }: BlockPools,
  vocabularySize: number,
): WarmUpInput | undefined {
  const promptBlocks = Math.ceil(prompt / blockTokens);
  const wanted = 1 + decoding + promptBlocks;
  const sequences = decoding + (prompt > 0 ? 1 : 0);
  if (groups.some(({ freeBlocks }) => wanted > freeBlocks)) return undefined;
  if (states !== undefined && sequences > states.freeBlocks) return undefined;
  const stateSlots = states?.allocate(sequences) ?? [];
  const blocks = groups.map((pool) => pool.allocate(wanted) ?? []);
  const decodingPositions = Array.from({ length: decoding }, (_, sequence) =>
    sequence === 0 ? longest - 1 : sequence % blockTokens,
  );
  const tables = blocks.flatMap(([read, ...written]) => {
    const decodingTables = decodingPositions.map((position, sequence) => {
      const table = new Int32Array(Math.floor(position / blockTokens) + 1).fill(read);
      table[table.length - 1] = written[sequence];
      return table;
    });
    return prompt > 0 ? [...decodingTables, Int32Array.from(written.slice(decoding))] : decodingTables;
  });
  const positions = Int32Array.from([...decodingPositions, ...Array.from({ length: prompt }, (_, index) => index)]);
  const rows = prompt > 0 ? [...decodingPositions.keys(), positions.length - 1] : [...decodingPositions.keys()];
  const sequenceOffsets = Int32Array.from(
    prompt > 0 ? [...decodingPositions.keys(), decoding, positions.length] : [...decodingPositions.keys(), decoding],
  );
  return {
    blocks,
    stateSlots,
    step: {
      tokens: positions.map((_, row) => (row * TOKEN_STRIDE + 1) % vocabularySize),
      positions,
      sequenceOffsets,
      blockTables: tables,
      outputs: rows.map((row): OutputRequest => ({
        row,
        want: { kind: "candidates", count: Math.min(CANDIDATES, vocabularySize) },
      })),
      ...(states === undefined ? {} : ownStateSlots(stateSlots, { positions, sequenceOffsets })),
    },
  };
}
