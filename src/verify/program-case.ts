// Small programs, written with GraphBuilder over weights in memory, that run on any backend: what `rocmforge verify` and the
// conformance tests are made of. Inputs come through an F32 embedding table, so a program starts from whatever numbers a
// case wants.

import type { Backend, CompiledProgram, KvCache, KvCacheType, OutputRow, StepInput } from "../backends/contract.js";
import { GraphBuilder } from "../graph/builder.js";
import { type ValueId, weightsOf } from "../graph/operation.js";
import type { KvShape, Program, WeightSpec } from "../graph/program.js";
import { encodeTensor } from "../quant/codec.js";
import { layoutByName, type SupportedTypeName } from "../quant/layout.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";
import { LazyTensor } from "../tensor/lazy-tensor.js";
import { randomTensor } from "./random-blocks.js";
import type { Dice } from "./dice.js";

export interface CaseWeight {
  readonly type: SupportedTypeName;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

export interface ProgramCase {
  readonly weights: Readonly<Record<string, CaseWeight>>;
  readonly vocabularySize: number;
  readonly kv?: KvShape;
  readonly kvCacheType?: KvCacheType;
  readonly blockTokens?: number;
  readonly blocks?: number;
  /** Of a case with recurrent states. */
  readonly stateSlots?: number;
  /** Both in rows of outputs and scored. */
  build(graph: GraphBuilder): { readonly hidden: ValueId; readonly logits?: ValueId };
}

const NO_KV: KvShape = { layers: 0, kvHeads: 1, keyWidth: 2, valueWidth: 2 };

export function floats(shape: readonly number[], values: ArrayLike<number>): CaseWeight {
  return { type: "F32", shape, data: encodeTensor("F32", Float32Array.from(values)) };
}

export function randomWeight(dice: Dice, type: SupportedTypeName, shape: readonly number[], size = 1): CaseWeight {
  const elements = shape.reduce((total, dimension) => total * dimension, 1);
  return { type, shape, data: randomTensor(dice, type, elements, size) };
}

/** A value that is row i of the table for token i. */
export function inputTable(dice: Dice, width: number, rows: number, size = 1): CaseWeight {
  return randomWeight(dice, "F32", [width, rows], size);
}

export function programOf({ weights, kv = NO_KV, vocabularySize, build }: ProgramCase): Program {
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: (name) => name in weights });
  const { hidden, logits } = graph.segment("case", undefined, () => build(graph));
  return graph.finish({ kv, vocabularySize, hidden, logits });
}

/** Why a backend cannot run the case, in its own words; undefined if it can. */
export function unsupportedReason(backend: Backend, subject: ProgramCase): string | undefined {
  const program = programOf(subject);
  for (const operation of program.operations) {
    const weights = weightsOf(operation).map((id) => descriptorOf(program.weights[id].name, subject));
    const support = backend.supports(operation, weights);
    if (support !== true) return support.reason;
  }
  const { kv, kvCacheType: type = backend.defaultKvCacheType, blockTokens = 16, blocks = 64, stateSlots = 0 } = subject;
  const cache = kv === undefined ? true : backend.supportsKvCache({ ...kv, type, blockTokens, blocks, stateSlots });
  return cache === true ? undefined : cache.reason;
}

/** Runs the steps in order over one cache and returns each step's rows. */
export async function runSteps(
  backend: Backend,
  subject: ProgramCase,
  steps: readonly StepInput[],
): Promise<(readonly OutputRow[])[]> {
  return await withProgram(backend, subject, async (compiled, cache) => {
    const rows: (readonly OutputRow[])[] = [];
    for (const step of steps) rows.push(await compiled.run(step, cache));
    return rows;
  });
}

/** Compiles the case, makes a cache if the case has one, and disposes of both after `use`. */
export async function withProgram<Result>(
  backend: Backend,
  subject: ProgramCase,
  use: (compiled: CompiledProgram, cache: KvCache | undefined) => Promise<Result>,
): Promise<Result> {
  const { blockTokens = 16, blocks = 64, stateSlots = 0, kvCacheType = backend.defaultKvCacheType } = subject;
  const program = programOf(subject);
  const tensors = program.weights.map((spec) => lazyWeight(spec, subject, backend));
  using compiled = backend.compile(program, tensors, {
    maxTokens: backend.maxStepTokens,
    maxOutputs: backend.maxStepOutputs,
    contextTokens: blockTokens * blocks,
    blockTokens,
    kvCacheType,
  });
  using cache =
    subject.kv === undefined
      ? undefined
      : backend.createKvCache({ ...program.kv, blocks, blockTokens, stateSlots, type: kvCacheType });
  try {
    return await use(compiled, cache);
  } finally {
    for (const tensor of tensors) tensor.evict();
  }
}

function descriptorOf(name: string, { weights }: ProgramCase): TensorDescriptor {
  const { type, shape, data } = weights[name];
  const elements = shape.reduce((total, dimension) => total * dimension, 1);
  return { name, layout: layoutByName(type), shape, elements, sizeBytes: data.length };
}

function lazyWeight({ name, onHost = false }: WeightSpec, subject: ProgramCase, backend: Backend): LazyTensor {
  const descriptor = { ...descriptorOf(name, subject), ...(onHost ? { onHost } : {}) };
  const { data } = subject.weights[name];
  return new LazyTensor(descriptor, () =>
    backend.upload({
      descriptor,
      read: async (target, byteOffset) => target.set(data.subarray(byteOffset, byteOffset + target.length)),
      mappedLocation: () => undefined,
    }),
  );
}

/** Tokens 0, 1, 2 … of one sequence from position `first` on, in blocks from `firstBlock` on, the hidden state of each wanted. */
export function plainStep(count: number, { first = 0, blockTokens = 16, firstBlock = 0 } = {}): StepInput {
  const ids = Int32Array.from({ length: count }, (_, index) => first + index);
  return {
    tokens: ids,
    positions: ids.slice(),
    sequenceOffsets: Int32Array.of(0, count),
    blockTables: [
      Int32Array.from({ length: Math.ceil((first + count) / blockTokens) }, (_, index) => firstBlock + index),
    ],
    outputs: Array.from(ids, (_, row) => ({ row, want: { kind: "hidden" as const } })),
  };
}

/** The hidden states of all rows, one after the other; a row that is not finite is all NaN. */
export function hiddenOf(rows: readonly OutputRow[], width: number): Float32Array {
  const result = new Float32Array(rows.length * width).fill(Number.NaN);
  for (const [index, row] of rows.entries()) if (row.kind === "hidden") result.set(row.values, index * width);
  return result;
}

/** Squared error over squared size. */
export function normalisedError(found: Float32Array, expected: Float32Array): number {
  let error = 0;
  let size = 0;
  for (const [index, value] of expected.entries()) {
    error += (found[index] - value) ** 2;
    size += value ** 2;
  }
  return size === 0 ? error : error / size;
}
