// Where everything that a step brings along lies in the step buffer: the head of kernels/device/step.h first, then its
// arrays at fixed places, then what has no fixed length, so that one copy of a prefix brings it all.

import type { StepInput } from "../../contract.js";
import { roundUp } from "../memory/device-memory.js";
import type { StepCache } from "../memory/kv-layout.js";
import { type OutputPlan, packOutputs, REQUEST_WORDS } from "./output-rows.js";

const INT_BYTES = 4;
const ALIGNMENT_BYTES = 16;
/** `StepHead` of kernels/device/step.h: eight ints and the address of the cache. */
const HEAD_BYTES = 40;
const HEAD_CACHE_OFFSET = 32;
/** First token, count, sequence. */
const TILE_INTS = 3;

export interface StepLayoutCapacity {
  readonly tokens: number;
  readonly outputs: number;
  /** Most tokens that one tile of attention holds. */
  readonly tileTokens: number;
}

/** How large one step is, in everything that a launch may depend on. */
export interface StepCounts {
  tokens: number;
  sequences: number;
  outputs: number;
  scored: number;
  tiles: number;
  /** Positions that the longest sequence has when the step is done. */
  longest: number;
  /** The most tokens that one sequence brings. */
  longestRun: number;
}

export type StepField =
  | "head"
  | "tokens"
  | "positions"
  | "sequences"
  | "cells"
  | "outputs"
  | "scored"
  | "tableStarts"
  | "tiles"
  | "requests"
  | "tables";

export class StepLayout {
  readonly capacity: StepLayoutCapacity;
  readonly offsets: Readonly<Record<StepField, number>>;

  constructor(capacity: StepLayoutCapacity) {
    this.capacity = capacity;
    const { tokens, outputs } = capacity;
    let end = 0;
    const place = (sizeBytes: number): number => {
      const offset = end;
      end = roundUp(end + sizeBytes, ALIGNMENT_BYTES);
      return offset;
    };
    this.offsets = {
      head: place(HEAD_BYTES),
      tokens: place(tokens * INT_BYTES),
      positions: place(tokens * INT_BYTES),
      sequences: place(tokens * INT_BYTES),
      cells: place(tokens * INT_BYTES),
      outputs: place(outputs * INT_BYTES),
      scored: place(outputs * INT_BYTES),
      tableStarts: place(tokens * INT_BYTES),
      // A sequence may end in a tile that is not full, and every sequence has a token.
      tiles: place(tokens * TILE_INTS * INT_BYTES),
      requests: place(outputs * REQUEST_WORDS * INT_BYTES),
      // Then the bias lists and masks, wherever the tables end.
      tables: place(0),
    };
  }

  /** Bytes from the start on that hold a whole step. */
  usedBytes(tableEntries: number, payloadWords: number): number {
    return this.offsets.tables + (tableEntries + payloadWords) * INT_BYTES;
  }
}

/** Blocks that the positions of a step lie in: the part of the tables that kernels look at. */
export function tableEntriesOf({ positions, sequenceOffsets, blockTables }: StepInput, blockTokens: number): number {
  let entries = 0;
  for (let sequence = 0; sequence < blockTables.length; sequence++)
    entries += usedBlocks(positions, sequenceOffsets, sequence, blockTokens);
  return entries;
}

function usedBlocks(positions: Int32Array, sequenceOffsets: Int32Array, sequence: number, blockTokens: number): number {
  return Math.floor(positions[sequenceOffsets[sequence + 1] - 1] / blockTokens) + 1;
}

/** Writes a step into host memory that has room for it; allocates nothing but its answer. */
export function packStep(
  layout: StepLayout,
  target: DataView,
  step: StepInput,
  outputs: OutputPlan,
  cache: StepCache,
): StepCounts {
  const { offsets } = layout;
  const ints = new Int32Array(target.buffer, target.byteOffset, target.byteLength >> 2);
  const { tokens, positions, sequenceOffsets } = step;
  const [tokensAt, positionsAt] = [offsets.tokens >> 2, offsets.positions >> 2];
  for (let row = 0; row < tokens.length; row++) {
    ints[tokensAt + row] = tokens[row];
    ints[positionsAt + row] = positions[row];
  }
  let scored = 0;
  for (let index = 0; index < step.outputs.length; index++) {
    ints[(offsets.outputs >> 2) + index] = step.outputs[index].row;
    if (step.outputs[index].want.kind !== "hidden") ints[(offsets.scored >> 2) + scored++] = index;
  }
  const { tiles, longestRun, longest } = packSequences(layout, ints, step);
  const entries = packTables(layout, ints, step, cache.blockTokens);
  packOutputs(outputs, ints, offsets.requests >> 2, (offsets.tables >> 2) + entries);
  const sequences = Math.max(1, sequenceOffsets.length - 1);
  const head = offsets.head >> 2;
  ints[head] = tokens.length;
  ints[head + 1] = sequences;
  ints[head + 2] = step.outputs.length;
  ints[head + 3] = scored;
  ints[head + 4] = tiles;
  ints[head + 5] = cache.blocks;
  target.setBigUint64(offsets.head + HEAD_CACHE_OFFSET, cache.address, true);
  return { tokens: tokens.length, sequences, outputs: step.outputs.length, scored, tiles, longest, longestRun };
}

function packSequences(
  { offsets, capacity }: StepLayout,
  ints: Int32Array,
  { positions, sequenceOffsets }: StepInput,
): Pick<StepCounts, "tiles" | "longest" | "longestRun"> {
  let tiles = 0;
  let longest = 0;
  let longestRun = 0;
  for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
    const start = sequenceOffsets[sequence];
    const end = sequenceOffsets[sequence + 1];
    longest = Math.max(longest, positions[end - 1] + 1);
    longestRun = Math.max(longestRun, end - start);
    for (let row = start; row < end; row++) ints[(offsets.sequences >> 2) + row] = sequence;
    for (let first = start; first < end; first += capacity.tileTokens) {
      const tile = (offsets.tiles >> 2) + tiles++ * TILE_INTS;
      ints[tile] = first;
      ints[tile + 1] = Math.min(capacity.tileTokens, end - first);
      ints[tile + 2] = sequence;
    }
  }
  return { tiles, longest, longestRun };
}

/** Each table's used part, one after the other, and each token's own cell. */
function packTables(
  { offsets }: StepLayout,
  ints: Int32Array,
  { positions, sequenceOffsets, blockTables }: StepInput,
  blockTokens: number,
): number {
  const tables = offsets.tables >> 2;
  const cells = offsets.cells >> 2;
  let entries = 0;
  for (let sequence = 0; sequence < blockTables.length; sequence++) {
    const table = blockTables[sequence];
    const used = usedBlocks(positions, sequenceOffsets, sequence, blockTokens);
    ints[(offsets.tableStarts >> 2) + sequence] = entries;
    for (let index = 0; index < used; index++) ints[tables + entries + index] = table[index];
    for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
      const position = positions[row];
      ints[cells + row] = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
    }
    entries += used;
  }
  return entries;
}
