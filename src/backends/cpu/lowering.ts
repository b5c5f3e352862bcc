// Lowers a fused Program to the addon's instructions. Row counts stay symbolic (they are counted per step); ids of weights
// and values keep their meaning, so that an id in an error of the addon can be found in `rocmforge plan --dump`.

import type { AnyGroup, FusedExpertsProgram, RopeStoreGroup } from "../../graph/fusion.js";
import type {
  Activation,
  GroupedMatmulOperation,
  MatmulOperation,
  Operation,
  RmsNormOperation,
  ValueId,
} from "../../graph/operation.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { ProgramLimits } from "../contract.js";
import type {
  NativeGroupedMatmulInstruction,
  NativeMatmul,
  NativeMatmulInstruction,
  NativeProgramSpec,
  NativeRopeStoreInstruction,
} from "./native-bindings.js";

const NONE = -1;

export interface LoweringOptions {
  readonly isa: string;
  readonly threads: number;
  readonly deterministic: boolean;
}

export function lower(
  { program, groups, memory }: FusedExpertsProgram,
  weights: readonly TensorDescriptor[],
  limits: ProgramLimits,
  options: LoweringOptions,
): NativeProgramSpec {
  return {
    ...options,
    slots: memory.slots,
    values: program.values.map(({ id, rows, width, base, columnOffset }) => ({
      slot: memory.slotOf[id],
      column: columnOffset,
      width,
      stride: base === undefined ? width : program.values[base].width,
      rows,
    })),
    weights: weights.map(({ layout, shape, elements }) => ({
      type: layout.id,
      width: shape[0],
      rows: elements / shape[0],
    })),
    ropes: program.ropes.map(({ ratio, stretches, magnitude }) => ({
      ratio,
      stretches: Float64Array.from(stretches),
      magnitude,
    })),
    instructions: groups.flatMap(lowerGroup),
    kv: program.kv,
    vocabularySize: program.vocabularySize,
    hidden: program.hidden,
    logits: program.logits ?? NONE,
    maxTokens: limits.maxTokens,
    maxOutputs: limits.maxOutputs,
    contextTokens: limits.contextTokens,
  };
}

/** Every operation but matmuls, which take their norm and what follows along, is an instruction as it is. */
type Instruction =
  | Exclude<Operation, MatmulOperation | GroupedMatmulOperation>
  | NativeMatmulInstruction
  | NativeGroupedMatmulInstruction
  | NativeRopeStoreInstruction;

function lowerGroup(group: AnyGroup): Instruction | readonly Instruction[] {
  switch (group.form) {
    case "single":
      return lowerOperation(group.operation);
    case "matmuls":
      return lowerMatmuls(group.matmuls, group.norm, {});
    case "gated-matmul": {
      const { activation, out } = group.activation;
      return lowerMatmuls([group.gate, group.up], group.norm, { gated: { activation, out } });
    }
    case "matmul-add":
      return lowerMatmuls([{ ...group.matmul, out: group.sum.out }], undefined, { residual: group.residual });
    case "norm-add": {
      // The norm's own value has no memory: it is written to the sum's, and the residual is added there.
      const { norm, residual, sum } = group;
      return [
        { ...norm, out: sum.out },
        { ...sum, left: residual, right: sum.out },
      ];
    }
    case "rope-store":
      return lowerRopeStore(group);
    case "gated-experts": {
      const { activation, out } = group.activation;
      return lowerGroupedMatmul([group.gate, group.up], out, { activation });
    }
    case "experts-sum":
      return lowerGroupedMatmul([group.matmul], group.residual?.add.out ?? group.sum.out, {
        summed: true,
        residual: group.residual?.value,
      });
    case "head-store":
    case "latent-store":
    case "latent-query":
    case "rope-concat":
    case "gated-norm":
      throw new TypeError("norms of heads are not joined with other operations on the CPU");
    default:
      return group satisfies never;
  }
}

function lowerOperation(operation: Operation): Instruction {
  switch (operation.kind) {
    case "matmul":
      return lowerMatmuls([operation], undefined, {});
    case "grouped-matmul":
      return lowerGroupedMatmul([operation], operation.out, {});
    default:
      return operation;
  }
}

interface GroupedMatmulJoin {
  /** The gated linear unit that joins gate and up. */
  readonly activation?: Activation;
  /** Whether the slots are added up. */
  readonly summed?: boolean;
  /** The value that is added to the sum. */
  readonly residual?: ValueId | undefined;
}

function lowerGroupedMatmul(
  operations: readonly GroupedMatmulOperation[],
  out: ValueId,
  { activation, summed = false, residual = NONE }: GroupedMatmulJoin,
): NativeGroupedMatmulInstruction {
  const [{ input, routing = NONE, slots, inputStride, outputs, weighted }] = operations;
  const matmuls = operations.map(({ weight, scale = NONE, bias = NONE, matrixRows, firstOutput }) => ({
    weight,
    scale,
    bias,
    matrixRows,
    firstOutput,
  }));
  return {
    kind: "grouped-matmul",
    input,
    routing,
    slots,
    inputStride,
    outputs,
    weighted: weighted && routing !== NONE,
    matmuls,
    activation: activation ?? "none",
    summed,
    residual,
    out,
  };
}

function lowerRopeStore({ query, key, store }: RopeStoreGroup): NativeRopeStoreInstruction {
  const { input, out: queryOut, heads: queryHeads, ...rotation } = query;
  return {
    ...rotation,
    kind: "rope-store",
    layer: store.layer,
    query: input,
    queryHeads,
    queryOut,
    key: key.input,
    keyHeads: key.heads,
    value: store.value,
  };
}

interface MatmulJoin {
  /** The gated linear unit that joins gate and up. */
  readonly gated?: { readonly activation: Activation; readonly out: ValueId };
  /** The value that is added to the result. */
  readonly residual?: ValueId;
}

function lowerMatmuls(
  operations: readonly MatmulOperation[],
  norm: RmsNormOperation | undefined,
  { gated, residual = NONE }: MatmulJoin,
): NativeMatmulInstruction {
  const matmuls: NativeMatmul[] = operations.map(({ weight, scale = NONE, bias = NONE, softCap = 0, out }) => ({
    weight,
    scale,
    bias,
    softCap,
    out: gated === undefined ? out : NONE,
  }));
  return {
    kind: "matmul",
    input: norm?.input ?? operations[0].input,
    norm: norm?.weight ?? NONE,
    epsilon: norm?.epsilon ?? 0,
    matmuls,
    activation: gated?.activation ?? "none",
    gatedOut: gated?.out ?? NONE,
    residual,
  };
}
