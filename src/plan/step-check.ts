// Checks a step before a backend sees it: no index is out of range, and no two rows write the same place. Backends rely
// on it. It runs once per step, so it walks plain arrays and allocates nothing.

import type { KvCache, KvCacheOptions, OutputRequest, StepInput, TokenSampling } from "../backends/contract.js";
import { DisposedError, TokenizerError } from "../errors.js";
import { firstVisible, kvGroups } from "../graph/cache-groups.js";
import type { KvGroup, KvShape } from "../graph/program.js";
import { refuseStep as refuse, StateSlotCheck } from "./state-slot-check.js";

interface StepLimits {
  readonly vocabularySize: number;
  readonly maxTokens: number;
  readonly maxOutputs: number;
  /** Context length of a sequence. */
  readonly contextTokens: number;
  /** Required shape of the cache; undefined for programs without one. */
  readonly kv: KvShape | undefined;
}

/** Validates the steps of one plan; throws BACKEND_STEP. */
export class StepCheck {
  readonly #limits: StepLimits;
  readonly #groups: readonly KvGroup[];
  /** For each block of each cache group, the last step that writes it. */
  readonly #writtenIn: Int32Array[];
  readonly #states = new StateSlotCheck();
  #stepNumber = 0;
  /** What the rows of the last step contain. */
  #previous: readonly OutputRequest[] = [];

  constructor(limits: StepLimits) {
    this.#limits = limits;
    this.#groups = limits.kv === undefined ? [] : kvGroups(limits.kv);
    this.#writtenIn = this.#groups.map(() => new Int32Array());
  }

  check(step: StepInput, kvCache: KvCache | undefined): void {
    const { vocabularySize, maxTokens, maxOutputs, kv } = this.#limits;
    const { tokens, positions, outputs } = step;
    requireInts("tokens", tokens);
    requireInts("positions", positions);
    if (tokens.length === 0 || tokens.length > maxTokens)
      refuse("tokens", `1 to ${maxTokens} tokens`, String(tokens.length));
    if (positions.length !== tokens.length) refuse("positions", `${tokens.length} positions`, String(positions.length));
    checkTokens(tokens, vocabularySize);
    if (kv !== undefined) {
      const cache = requireCache(kvCache, kv);
      this.#checkSequences(step, cache);
      if (kv.states !== undefined) this.#states.check(step, cache.stateSlots ?? 0);
    }
    if (outputs.length > maxOutputs) refuse("outputs", `at most ${maxOutputs} rows`, String(outputs.length));
    let previousRow = -1;
    for (let index = 0; index < outputs.length; index++) {
      const output = outputs[index];
      if (!Number.isInteger(output.row) || output.row <= previousRow || output.row >= tokens.length) {
        refuse("outputs.row", `rising rows below ${tokens.length}`, String(output.row));
      }
      previousRow = output.row;
      checkOutput(output, vocabularySize);
    }
    this.#checkPrevious(step);
    this.#previous = outputs;
  }

  /** Tokens of the previous step come from rows in which it chooses one. */
  #checkPrevious({ previousOutputs, tokens }: StepInput): void {
    if (previousOutputs === undefined) return;
    requireInts("previousOutputs", previousOutputs);
    if (previousOutputs.length !== tokens.length)
      refuse("previousOutputs", `${tokens.length} outputs`, String(previousOutputs.length));
    for (const output of previousOutputs) {
      if (output === -1) continue;
      const kind = this.#previous[output]?.want.kind;
      if (kind !== "token" && kind !== "candidates")
        refuse("previousOutputs", "outputs of the previous step that choose a token", `${output}, ${kind ?? "none"}`);
    }
  }

  #checkSequences({ tokens, positions, sequenceOffsets, blockTables }: StepInput, cache: KvCacheOptions): void {
    requireInts("sequenceOffsets", sequenceOffsets);
    const sequences = sequenceOffsets.length - 1;
    if (sequences < 1 || sequenceOffsets[0] !== 0 || sequenceOffsets[sequences] !== tokens.length) {
      refuse("sequenceOffsets", `offsets from 0 to ${tokens.length}`, `[${sequenceOffsets.join(", ")}]`);
    }
    const groups = blockTables.length === sequences ? 1 : this.#groups.length;
    if (blockTables.length !== groups * sequences)
      refuse("blockTables", `${this.#groups.length * sequences} tables`, String(blockTables.length));
    for (let sequence = 0; sequence < sequences; sequence++) {
      const start = sequenceOffsets[sequence];
      const end = sequenceOffsets[sequence + 1];
      if (end <= start) refuse("sequenceOffsets", "at least one token per sequence", `${end - start} in ${sequence}`);
      this.#checkPositions(positions, start, end);
    }
    this.#stepNumber++;
    for (let group = 0; group < this.#groups.length; group++) {
      const step = { positions, sequenceOffsets, blockTables, first: groups === 1 ? 0 : group * sequences };
      this.#checkTables(step, group, cache);
      this.#checkWrites(step, group, cache);
    }
  }

  /** Every position of a step has a block, and every entry is one, even if no query reads it. */
  #checkTables({ positions, sequenceOffsets, blockTables, first }: GroupTables, group: number, cache: KvCacheOptions) {
    for (let sequence = 0; sequence + 1 < sequenceOffsets.length; sequence++) {
      const table = blockTables[first + sequence];
      // The name is built only for an error, because every step is checked here.
      if (!(table instanceof Int32Array)) requireInts(`blockTables[${first + sequence}]`, table);
      const used = usedBlocks(positions[sequenceOffsets[sequence + 1] - 1], cache);
      checkBlocks(table, first + sequence, used, blocksOfGroup(cache, group));
    }
  }

  #checkPositions(positions: Int32Array, start: number, end: number): void {
    const first = positions[start];
    if (first < 0) refuse("positions", `0 or more at row ${start}`, String(first));
    for (let row = start + 1; row < end; row++) {
      if (positions[row] !== first + row - start)
        refuse("positions", `${first + row - start} at row ${row}`, String(positions[row]));
    }
    const { contextTokens } = this.#limits;
    if (positions[end - 1] >= contextTokens)
      refuse("positions", `below ${contextTokens}, the context`, String(positions[end - 1]));
  }

  /**
   * A written block occurs once in one table: otherwise rows would overwrite each other, or read what is being written.
   */
  #checkWrites(step: GroupTables, group: number, cache: KvCacheOptions): void {
    const { positions, sequenceOffsets, blockTables, first } = step;
    const blocks = blocksOfGroup(cache, group);
    if (this.#writtenIn[group].length < blocks) this.#writtenIn[group] = new Int32Array(blocks);
    const writtenIn = this.#writtenIn[group];
    const written = this.#stepNumber;
    const sequences = sequenceOffsets.length - 1;
    for (let sequence = 0; sequence < sequences; sequence++) {
      const table = blockTables[first + sequence];
      const last = usedBlocks(positions[sequenceOffsets[sequence + 1] - 1], cache);
      for (let index = blockOf(positions[sequenceOffsets[sequence]], cache); index < last; index++) {
        if (writtenIn[table[index]] === written) {
          const found = `block ${table[index]} again`;
          refuse(`blockTables[${first + sequence}]`, "a block that only this sequence writes", found);
        }
        writtenIn[table[index]] = written;
      }
    }
    for (let sequence = 0; sequence < sequences; sequence++) {
      const table = blockTables[first + sequence];
      const position = positions[sequenceOffsets[sequence]];
      const readOnly = blockOf(position, cache);
      // Blocks that no query sees any more may be written for another sequence.
      for (let index = blockOf(firstVisible(this.#groups[group], position), cache); index < readOnly; index++) {
        if (writtenIn[table[index]] !== written) continue;
        refuse(`blockTables[${first + sequence}]`, "blocks that this step does not write", `block ${table[index]}`);
      }
    }
  }
}

/** The sequences of a step and their block tables of one cache group, which begin with table `first`. */
interface GroupTables extends Pick<StepInput, "positions" | "sequenceOffsets" | "blockTables"> {
  readonly first: number;
}

function blocksOfGroup({ blocks, blocksByGroup }: KvCacheOptions, group: number): number {
  return blocksByGroup?.[group] ?? blocks;
}

function usedBlocks(lastPosition: number, { blockTokens }: KvCacheOptions): number {
  return Math.floor(lastPosition / blockTokens) + 1;
}

function blockOf(position: number, { blockTokens }: KvCacheOptions): number {
  return Math.floor(position / blockTokens);
}

function checkBlocks(table: Int32Array, index: number, used: number, blocks: number): void {
  if (table.length < used) refuse(`blockTables[${index}]`, `at least ${used} blocks`, String(table.length));
  for (let entry = 0; entry < used; entry++) {
    if (table[entry] < 0 || table[entry] >= blocks)
      refuse(`blockTables[${index}]`, `blocks below ${blocks}`, String(table[entry]));
  }
}

function requireCache(kvCache: KvCache | undefined, kv: KvShape): KvCacheOptions {
  if (kvCache === undefined) return refuse("kvCache", "a KV cache", "none");
  if (kvCache.disposed) throw new DisposedError("the KV cache");
  const { options } = kvCache;
  const fits =
    options.layers === kv.layers &&
    options.kvHeads === kv.kvHeads &&
    options.keyWidth === kv.keyWidth &&
    options.valueWidth === kv.valueWidth &&
    (options.byLayer === kv.byLayer || alikeByLayer(options, kv)) &&
    (options.groups === kv.groups || alikeGroups(options, kv)) &&
    (options.states === kv.states || alikeStates(options, kv));
  if (!fits) refuseCache(options, kv);
  return options;
}

function refuseCache(options: KvCacheOptions, kv: KvShape): void {
  for (const field of ["layers", "kvHeads", "keyWidth", "valueWidth"] as const) {
    if (options[field] !== kv[field]) refuse(`kvCache.${field}`, String(kv[field]), String(options[field]));
  }
  if (!alikeByLayer(options, kv)) refuse("kvCache.byLayer", "the program's layers", "layers of other shapes");
  if (!alikeGroups(options, kv)) refuse("kvCache.groups", "the program's cache groups", "other groups");
  refuse("kvCache.states", "the program's recurrent states", "states of other sizes");
}

function alikeStates({ states: found = [] }: KvShape, { states: wanted = [] }: KvShape): boolean {
  return found.length === wanted.length && found.every((elements, id) => elements === wanted[id]);
}

/** Whether the same layers share blocks; how far queries see is the program's. */
function alikeGroups(found: KvShape, wanted: KvShape): boolean {
  const layersOf = (shape: KvShape): string =>
    kvGroups(shape)
      .map(({ layers }) => layers.join())
      .join(";");
  return layersOf(found) === layersOf(wanted);
}

function alikeByLayer({ byLayer: found = [] }: KvShape, { byLayer: wanted = [] }: KvShape): boolean {
  return (
    found.length === wanted.length &&
    found.every(
      ({ kvHeads, keyWidth, valueWidth }, layer) =>
        kvHeads === wanted[layer].kvHeads &&
        keyWidth === wanted[layer].keyWidth &&
        valueWidth === wanted[layer].valueWidth,
    )
  );
}

/** Throws TOKENIZER_TOKEN for a token id outside the vocabulary. */
export function checkTokens(tokens: ArrayLike<number>, vocabularySize: number): void {
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (Number.isInteger(token) && token >= 0 && token < vocabularySize) continue;
    throw new TokenizerError(
      "TOKENIZER_TOKEN",
      `[step] token ${index}: expected an id from 0 to ${vocabularySize - 1}, found ${String(token)}`,
      { details: { index, token, vocabularySize } },
    );
  }
}

function checkOutput({ want, bias, allowMask }: OutputRequest, vocabularySize: number): void {
  if (want.kind !== "candidates" && want.kind !== "logits" && want.kind !== "token" && want.kind !== "hidden") {
    refuse("outputs.want.kind", "candidates, logits, token or hidden", String((want as { kind?: unknown }).kind));
  }
  if (want.kind === "candidates" && !(Number.isInteger(want.count) && want.count >= 1)) {
    refuse("outputs.want.count", "at least 1", String(want.count));
  }
  if (want.kind === "token") checkSampling(want.sampling, want.top, vocabularySize);
  if (bias !== undefined) checkBias(bias.ids, bias.values, vocabularySize);
  const words = Math.ceil(vocabularySize / 32);
  if (allowMask !== undefined && !(allowMask instanceof Uint32Array && allowMask.length === words)) {
    refuse("outputs.allowMask", `a Uint32Array of ${words} words`, String(allowMask.length));
  }
}

function checkSampling(sampling: TokenSampling, top: number, vocabularySize: number): void {
  const { temperature, topK, typicalP, topP, minP, minKeep, xtcThreshold, penalties, draw } = sampling;
  if (!(Number.isInteger(top) && top >= 0)) refuse("outputs.want.top", "a whole number", String(top));
  const isWhole = Number.isInteger(topK) && topK >= 0 && Number.isInteger(minKeep) && minKeep >= 1;
  const areShares = [typicalP, topP, minP, xtcThreshold ?? 0].every((share) => share >= 0 && share <= 1);
  if (!isWhole || !areShares || !(temperature >= 0) || !(draw >= 0 && draw < 1))
    refuse("outputs.want.sampling", "a temperature, shares from 0 to 1, counts and a draw below 1", "others");
  if (penalties === undefined) return;
  const { ids, factors, decreases } = penalties;
  requireInts("outputs.want.sampling.penalties.ids", ids);
  if (factors.length !== ids.length || decreases.length !== ids.length)
    refuse("outputs.want.sampling.penalties", `${ids.length} factors and decreases`, String(factors.length));
  for (let index = 0; index < ids.length; index++) {
    if (ids[index] <= (index === 0 ? -1 : ids[index - 1]) || ids[index] >= vocabularySize)
      refuse("outputs.want.sampling.penalties.ids", `ascending ids below ${vocabularySize}`, String(ids[index]));
    if (!(factors[index] > 0 && Number.isFinite(decreases[index])))
      refuse("outputs.want.sampling.penalties", "positive factors and finite decreases", String(factors[index]));
  }
}

function checkBias(ids: Int32Array, values: Float32Array, vocabularySize: number): void {
  requireInts("outputs.bias.ids", ids);
  if (ids.length !== values.length) refuse("outputs.bias", `${ids.length} values`, String(values.length));
  for (let index = 0; index < ids.length; index++) {
    if (ids[index] < 0 || ids[index] >= vocabularySize)
      refuse("outputs.bias.ids", `ids below ${vocabularySize}`, String(ids[index]));
    // Minus infinity bans a token; NaN and plus infinity would make the whole row meaningless.
    if (!(values[index] < Number.POSITIVE_INFINITY))
      refuse("outputs.bias.values", "numbers or -Infinity", String(values[index]));
  }
}

function requireInts(field: string, values: unknown): void {
  if (!(values instanceof Int32Array)) refuse(field, "an Int32Array", typeof values);
}
