// Checks a step before a backend sees it: no index is out of range, and no two rows write the same place. Backends rely
// on it. It runs once per step, so it walks plain arrays and allocates nothing.

import type { KvCache, KvCacheOptions, OutputRequest, StepInput } from "../backends/contract.js";
import { BackendError, DisposedError, TokenizerError } from "../errors.js";
import type { KvShape } from "../graph/program.js";

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
  /** For each block, the last step that writes it. */
  #writtenIn = new Int32Array();
  #stepNumber = 0;

  constructor(limits: StepLimits) {
    this.#limits = limits;
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
    if (kv !== undefined) this.#checkSequences(step, requireCache(kvCache, kv));
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
  }

  #checkSequences({ tokens, positions, sequenceOffsets, blockTables }: StepInput, cache: KvCacheOptions): void {
    requireInts("sequenceOffsets", sequenceOffsets);
    const sequences = sequenceOffsets.length - 1;
    if (sequences < 1 || sequenceOffsets[0] !== 0 || sequenceOffsets[sequences] !== tokens.length) {
      refuse("sequenceOffsets", `offsets from 0 to ${tokens.length}`, `[${sequenceOffsets.join(", ")}]`);
    }
    if (blockTables.length !== sequences) refuse("blockTables", `${sequences} tables`, String(blockTables.length));
    for (let sequence = 0; sequence < sequences; sequence++) {
      const start = sequenceOffsets[sequence];
      const end = sequenceOffsets[sequence + 1];
      if (end <= start) refuse("sequenceOffsets", "at least one token per sequence", `${end - start} in ${sequence}`);
      this.#checkPositions(positions, start, end);
      // The name is built only for an error, because every step is checked here.
      if (!(blockTables[sequence] instanceof Int32Array))
        requireInts(`blockTables[${sequence}]`, blockTables[sequence]);
      checkBlocks(blockTables[sequence], sequence, usedBlocks(positions[end - 1], cache), cache.blocks);
    }
    this.#checkWrites({ positions, sequenceOffsets, blockTables }, cache);
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
  #checkWrites(step: Pick<StepInput, "positions" | "sequenceOffsets" | "blockTables">, cache: KvCacheOptions): void {
    const { positions, sequenceOffsets, blockTables } = step;
    if (this.#writtenIn.length < cache.blocks) this.#writtenIn = new Int32Array(cache.blocks);
    const written = ++this.#stepNumber;
    for (let sequence = 0; sequence < blockTables.length; sequence++) {
      const table = blockTables[sequence];
      const last = usedBlocks(positions[sequenceOffsets[sequence + 1] - 1], cache);
      for (let index = firstWritten(positions[sequenceOffsets[sequence]], cache); index < last; index++) {
        if (this.#writtenIn[table[index]] === written)
          refuse(`blockTables[${sequence}]`, "a block that only this sequence writes", `block ${table[index]} again`);
        this.#writtenIn[table[index]] = written;
      }
    }
    for (let sequence = 0; sequence < blockTables.length; sequence++) {
      const table = blockTables[sequence];
      const readOnly = firstWritten(positions[sequenceOffsets[sequence]], cache);
      for (let index = 0; index < readOnly; index++) {
        if (this.#writtenIn[table[index]] === written)
          refuse(`blockTables[${sequence}]`, "blocks that this step does not write", `block ${table[index]}`);
      }
    }
  }
}

function usedBlocks(lastPosition: number, { blockTokens }: KvCacheOptions): number {
  return Math.floor(lastPosition / blockTokens) + 1;
}

function firstWritten(firstPosition: number, { blockTokens }: KvCacheOptions): number {
  return Math.floor(firstPosition / blockTokens);
}

function checkBlocks(table: Int32Array, sequence: number, used: number, blocks: number): void {
  if (table.length < used) refuse(`blockTables[${sequence}]`, `at least ${used} blocks`, String(table.length));
  for (let index = 0; index < used; index++) {
    if (table[index] < 0 || table[index] >= blocks)
      refuse(`blockTables[${sequence}]`, `blocks below ${blocks}`, String(table[index]));
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
    (options.byLayer === kv.byLayer || alikeByLayer(options, kv));
  if (!fits) refuseCache(options, kv);
  return options;
}

function refuseCache(options: KvCacheOptions, kv: KvShape): void {
  for (const field of ["layers", "kvHeads", "keyWidth", "valueWidth"] as const) {
    if (options[field] !== kv[field]) refuse(`kvCache.${field}`, String(kv[field]), String(options[field]));
  }
  refuse("kvCache.byLayer", "the program's layers", "layers of other shapes");
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
  if (want.kind !== "candidates" && want.kind !== "logits" && want.kind !== "hidden") {
    refuse("outputs.want.kind", "candidates, logits or hidden", String((want as { kind?: unknown }).kind));
  }
  if (want.kind === "candidates" && !(Number.isInteger(want.count) && want.count >= 1)) {
    refuse("outputs.want.count", "at least 1", String(want.count));
  }
  if (bias !== undefined) checkBias(bias.ids, bias.values, vocabularySize);
  const words = Math.ceil(vocabularySize / 32);
  if (allowMask !== undefined && !(allowMask instanceof Uint32Array && allowMask.length === words)) {
    refuse("outputs.allowMask", `a Uint32Array of ${words} words`, String(allowMask.length));
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

function refuse(field: string, expected: string, found: string): never {
  throw new BackendError("BACKEND_STEP", `[step] ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}
