// Where everything that a step brings along lies in the step buffer: the head of kernels/device/step.h first, then its
// arrays at fixed places, then what has no fixed length, so that one copy of a prefix brings it all.

import type { StepInput } from "../../contract.js";
import { roundUp } from "../memory/device-memory.js";
import type { StepCache } from "../memory/kv-layout.js";
import { type OutputPlan, packOutputs, REQUEST_WORDS } from "./output-rows.js";

const INT_BYTES = 4;
const ALIGNMENT_BYTES = 16;
/** `StepHead` of kernels/device/step.h: eight ints and the addresses of the cache and of the recurrent states. */
const HEAD_BYTES = 48;
const HEAD_CACHE_OFFSET = 32;
const HEAD_STATES_OFFSET = 40;
/** `StateRun` of kernels/recurrent/state.h: first token, count, slot to read, token that overwrites it. */
const RUN_INTS = 4;
/** First token, count, sequence. */
const TILE_INTS = 3;
const NO_SLOT = -1;

export interface StepLayoutCapacity {
  readonly tokens: number;
  readonly outputs: number;
  /** Most tokens that one tile of attention holds. */
  readonly tileTokens: number;
  /** Cache groups: each has a head, cells and table starts of its own. One by default. */
  readonly groups?: number;
  /** Whether the program has recurrent states. Not by default. */
  readonly states?: boolean;
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
  | "stateRuns"
  | "stateWrites"
  | "requests"
  | "tables";

/** Fields that every cache group has. */
export type GroupField = "head" | "cells" | "tableStarts";

export class StepLayout {
  readonly capacity: Required<StepLayoutCapacity>;
  /** Where each field begins, and that of the first group. */
  readonly offsets: Readonly<Record<StepField, number>>;
  /** Bytes from a field of one group to that of the next. */
  readonly strides: Readonly<Record<GroupField, number>>;

  constructor({ tokens, outputs, tileTokens, groups = 1, states = false }: StepLayoutCapacity) {
    this.capacity = { tokens, outputs, tileTokens, groups, states };
    const statefulTokens = states ? tokens : 0;
    const tokenBytes = roundUp(tokens * INT_BYTES, ALIGNMENT_BYTES);
    this.strides = { head: HEAD_BYTES, cells: tokenBytes, tableStarts: tokenBytes };
    let end = 0;
    const place = (sizeBytes: number): number => {
      const offset = end;
      end = roundUp(end + sizeBytes, ALIGNMENT_BYTES);
      return offset;
    };
    this.offsets = {
      head: place(groups * this.strides.head),
      tokens: place(tokens * INT_BYTES),
      positions: place(tokens * INT_BYTES),
      sequences: place(tokens * INT_BYTES),
      cells: place(groups * this.strides.cells),
      outputs: place(outputs * INT_BYTES),
      scored: place(outputs * INT_BYTES),
      tableStarts: place(groups * this.strides.tableStarts),
      // A sequence may end in a tile that is not full, and every sequence has a token.
      tiles: place(tokens * TILE_INTS * INT_BYTES),
      stateRuns: place(statefulTokens * RUN_INTS * INT_BYTES),
      stateWrites: place(statefulTokens * INT_BYTES),
      requests: place(outputs * REQUEST_WORDS * INT_BYTES),
      // Then the bias lists and masks, wherever the tables end.
      tables: place(0),
    };
  }

  /** Where a group's own field begins. */
  groupOffset(field: GroupField, group: number): number {
    return this.offsets[field] + group * this.strides[field];
  }

  /** Bytes from the start on that hold a whole step. */
  usedBytes(tableEntries: number, payloadWords: number): number {
    return this.offsets.tables + (tableEntries + payloadWords) * INT_BYTES;
  }
}

/** Blocks that the positions of a step lie in: the part of the tables that kernels look at. */
export function tableEntriesOf({ positions, sequenceOffsets, blockTables }: StepInput, blockTokens: number): number {
  const sequences = sequenceOffsets.length - 1;
  let entries = 0;
  for (let table = 0; table < blockTables.length; table++)
    entries += usedBlocks(positions, sequenceOffsets, table % sequences, blockTokens);
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
  if (layout.capacity.states) packStates(layout, ints, step);
  const entries = packTables(layout, ints, step, cache.blockTokens);
  packOutputs(outputs, ints, offsets.requests >> 2, (offsets.tables >> 2) + entries);
  const sequences = Math.max(1, sequenceOffsets.length - 1);
  for (let group = 0; group < layout.capacity.groups; group++) {
    const headBytes = layout.groupOffset("head", group);
    const head = headBytes >> 2;
    ints[head] = tokens.length;
    ints[head + 1] = sequences;
    ints[head + 2] = step.outputs.length;
    ints[head + 3] = scored;
    ints[head + 4] = tiles;
    ints[head + 5] = cache.groups[group]?.blocks ?? 0;
    target.setBigUint64(headBytes + HEAD_CACHE_OFFSET, cache.groups[group]?.address ?? 0n, true);
    target.setBigUint64(headBytes + HEAD_STATES_OFFSET, cache.states ?? 0n, true);
  }
  return { tokens: tokens.length, sequences, outputs: step.outputs.length, scored, tiles, longest, longestRun };
}

/** Replaces tokens that the previous step chooses by references to its results: −1 less the word that `wordOf` names. */
export function packPreviousTokens(
  { offsets }: StepLayout,
  target: DataView,
  { previousOutputs }: StepInput,
  wordOf: (output: number) => number,
): void {
  if (previousOutputs === undefined) return;
  const ints = new Int32Array(target.buffer, target.byteOffset + offsets.tokens, previousOutputs.length);
  for (let row = 0; row < previousOutputs.length; row++)
    if (previousOutputs[row] >= 0) ints[row] = -1 - wordOf(previousOutputs[row]);
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

/** The state slots that each sequence reads and each token writes; without a cache they are not touched. */
function packStates(
  { offsets }: StepLayout,
  ints: Int32Array,
  { sequenceOffsets, stateReads, stateWrites }: StepInput,
): void {
  const writes = offsets.stateWrites >> 2;
  for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
    const [start, end] = [sequenceOffsets[sequence], sequenceOffsets[sequence + 1]];
    const read = stateReads?.[sequence] ?? NO_SLOT;
    let rewriting = NO_SLOT;
    for (let row = start; row < end; row++) {
      const slot = stateWrites?.[row] ?? NO_SLOT;
      ints[writes + row] = slot;
      if (slot >= 0 && slot === read) rewriting = row;
    }
    const run = (offsets.stateRuns >> 2) + sequence * RUN_INTS;
    ints[run] = start;
    ints[run + 1] = end - start;
    ints[run + 2] = read;
    ints[run + 3] = rewriting;
  }
}

/** Each table's used part, one after the other, and each token's own cell. Tables of one group may serve all. */
function packTables(layout: StepLayout, ints: Int32Array, step: StepInput, blockTokens: number): number {
  const sequences = step.sequenceOffsets.length - 1;
  const isShared = step.blockTables.length === sequences;
  let entries = 0;
  for (let group = 0; group < layout.capacity.groups; group++) {
    const first = isShared ? 0 : group * sequences;
    if (step.blockTables.length < first + sequences) break;
    const end = packGroup(layout, ints, step, { group, first, entries: isShared ? 0 : entries }, blockTokens);
    entries = Math.max(entries, end);
  }
  return entries;
}

/** A group's tables from `first` on, behind the entries of the groups before; the same again if tables are shared. */
function packGroup(
  layout: StepLayout,
  ints: Int32Array,
  { positions, sequenceOffsets, blockTables }: StepInput,
  { group, first, entries }: { readonly group: number; readonly first: number; readonly entries: number },
  blockTokens: number,
): number {
  const tables = layout.offsets.tables >> 2;
  const cells = layout.groupOffset("cells", group) >> 2;
  const starts = layout.groupOffset("tableStarts", group) >> 2;
  let end = entries;
  for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
    const table = blockTables[first + sequence];
    const used = usedBlocks(positions, sequenceOffsets, sequence, blockTokens);
    ints[starts + sequence] = end;
    for (let index = 0; index < used; index++) ints[tables + end + index] = table[index];
    for (let row = sequenceOffsets[sequence]; row < sequenceOffsets[sequence + 1]; row++) {
      const position = positions[row];
      ints[cells + row] = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
    }
    end += used;
  }
  return end;
}
