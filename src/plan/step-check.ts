// The border check of a step: nothing a backend would index with is out of range. Backends rely on it.

import type { KvCacheOptions, OutputRequest, StepInput } from "../backends/contract.js";
import { BackendError, TokenizerError } from "../errors.js";

export interface StepLimits {
  readonly vocabularySize: number;
  readonly maxStepTokens: number;
  readonly kvCache: KvCacheOptions | undefined;
}

export function checkStep(step: StepInput, limits: StepLimits): void {
  const { tokens, positions, outputs } = step;
  if (tokens.length === 0 || tokens.length > limits.maxStepTokens) {
    refuse("tokens", `1 to ${limits.maxStepTokens} tokens`, String(tokens.length));
  }
  if (positions.length !== tokens.length) refuse("positions", `${tokens.length} positions`, String(positions.length));
  checkTokens(tokens, limits.vocabularySize);
  if (limits.kvCache !== undefined) checkSequences(step, limits.kvCache);
  let previousRow = -1;
  for (const output of outputs) {
    if (!Number.isInteger(output.row) || output.row <= previousRow || output.row >= tokens.length) {
      refuse("outputs.row", `rising rows below ${tokens.length}`, String(output.row));
    }
    previousRow = output.row;
    checkOutput(output, limits.vocabularySize);
  }
}

export function checkTokens(tokens: Int32Array, vocabularySize: number): void {
  for (const [index, token] of tokens.entries()) {
    if (token < 0 || token >= vocabularySize) {
      throw new TokenizerError(
        "TOKENIZER_TOKEN",
        `[step] token ${index}: expected an id from 0 to ${vocabularySize - 1}, found ${token}`,
        { details: { index, token, vocabularySize } },
      );
    }
  }
}

function checkSequences({ tokens, positions, sequenceOffsets, blockTables }: StepInput, kvCache: KvCacheOptions): void {
  const { blocks, blockTokens } = kvCache;
  const sequences = sequenceOffsets.length - 1;
  if (sequences < 1 || sequenceOffsets[0] !== 0 || sequenceOffsets[sequences] !== tokens.length) {
    refuse("sequenceOffsets", `offsets from 0 to ${tokens.length}`, `[${sequenceOffsets.join(", ")}]`);
  }
  if (blockTables.length !== sequences) refuse("blockTables", `${sequences} tables`, String(blockTables.length));
  for (let sequence = 0; sequence < sequences; sequence++) {
    const start = sequenceOffsets[sequence];
    const end = sequenceOffsets[sequence + 1];
    if (end <= start) refuse("sequenceOffsets", "at least one token a sequence", `${end - start} in ${sequence}`);
    for (let row = start; row < end; row++) {
      const expected = positions[start] + row - start;
      if (positions[row] !== expected || expected < 0) refuse("positions", `${expected} at row ${row}`, String(positions[row]));
    }
    const table = blockTables[sequence];
    const needed = Math.floor(positions[end - 1] / blockTokens) + 1;
    if (table.length < needed) refuse(`blockTables[${sequence}]`, `at least ${needed} blocks`, String(table.length));
    const stray = table.find((block) => block < 0 || block >= blocks);
    if (stray !== undefined) refuse(`blockTables[${sequence}]`, `blocks below ${blocks}`, String(stray));
  }
}

function checkOutput({ want, bias, allowMask }: OutputRequest, vocabularySize: number): void {
  if (want.kind === "candidates" && !(Number.isInteger(want.count) && want.count >= 1)) {
    refuse("outputs.want.count", "at least 1", String(want.count));
  }
  if (bias !== undefined) {
    if (bias.ids.length !== bias.values.length) refuse("outputs.bias", `${bias.ids.length} values`, String(bias.values.length));
    const stray = bias.ids.find((id) => id < 0 || id >= vocabularySize);
    if (stray !== undefined) refuse("outputs.bias.ids", `ids below ${vocabularySize}`, String(stray));
  }
  const words = Math.ceil(vocabularySize / 32);
  if (allowMask !== undefined && allowMask.length !== words) {
    refuse("outputs.allowMask", `${words} words`, String(allowMask.length));
  }
}

function refuse(field: string, expected: string, found: string): never {
  throw new BackendError("BACKEND_STEP", `[step] ${field}: expected ${expected}, found ${found}`, {
    details: { field, expected, found },
  });
}
