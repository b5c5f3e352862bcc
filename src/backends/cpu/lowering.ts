// From a fused Program to the addon's instructions. Everything symbolic stays symbolic (rows are counted per step); ids
// of weights and values keep their meaning, so that what the addon refuses can be found in `rocmforge plan --dump`.

import type { FusedProgram, Group } from "../../graph/fusion.js";
import type { MatmulOperation, Operation, RmsNormOperation, RopeOperation } from "../../graph/operation.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import type { ProgramLimits } from "../contract.js";
import type { NativeInstruction, NativeProduct, NativeProgramSpec } from "./native-bindings.js";

const NONE = -1;

export interface LoweringOptions {
  readonly isa: string;
  readonly threads: number;
  readonly deterministic: boolean;
}

export function lower(
  { program, groups, memory }: FusedProgram,
  weights: readonly TensorDescriptor[],
  limits: ProgramLimits,
  options: LoweringOptions,
): NativeProgramSpec {
  const { layers, kvHeads, keyWidth, valueWidth } = program.kv;
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
    instructions: groups.map(lowerGroup),
    kv: { layers, kvHeads, keyWidth, valueWidth },
    vocabularySize: program.vocabularySize,
    hidden: program.hidden,
    logits: program.logits ?? NONE,
    maxTokens: limits.maxTokens,
    maxOutputs: limits.maxOutputs,
    contextTokens: limits.contextTokens,
  };
}

function lowerGroup(group: Group): NativeInstruction {
  switch (group.form) {
    case "single":
      return lowerOperation(group.operation);
    case "matmuls":
      return project(group.matmuls, group.norm, {});
    case "gated-matmul":
      return project([group.gate, group.up], group.norm, { gatedOut: group.activation.out });
    case "matmul-add":
      return project([{ ...group.matmul, out: group.sum.out }], undefined, { residual: group.residual });
    case "rope-store": {
      const { query, key, store } = group;
      const { input: _query, out: queryOut, heads: queryHeads, ...turn } = lowerRope(query);
      return {
        ...turn,
        kind: "rotate-store",
        layer: store.layer,
        query: query.input,
        queryHeads,
        queryOut,
        key: key.input,
        keyHeads: key.heads,
        value: store.value,
      };
    }
    default:
      return group satisfies never;
  }
}

function lowerOperation(operation: Operation): NativeInstruction {
  switch (operation.kind) {
    case "embed":
      return { kind: "embed", weight: operation.table, out: operation.out };
    case "rms-norm": {
      const { input, weight, groupWidth, epsilon, out } = operation;
      return { kind: "norm", input, weight, groupWidth, epsilon, out };
    }
    case "matmul":
      return project([operation], undefined, {});
    case "rope":
      return lowerRope(operation);
    case "glu":
      return { kind: "swiglu", gate: operation.gate, up: operation.up, out: operation.out };
    case "quantize-activations":
      return { kind: "round-activations", input: operation.input, out: operation.out };
    case "kv-write":
    case "attention":
    case "add":
    case "select-rows":
      return operation;
    default:
      return operation satisfies never;
  }
}

function lowerRope({
  input,
  heads,
  headWidth,
  rotaryWidth,
  style,
  rope,
  factors,
  out,
}: RopeOperation): NativeInstruction & { kind: "rope" } {
  return {
    kind: "rope",
    input,
    heads,
    headWidth,
    rotaryWidth,
    adjacent: style === "adjacent",
    rope,
    factors: factors ?? NONE,
    out,
  };
}

function project(
  operations: readonly MatmulOperation[],
  norm: RmsNormOperation | undefined,
  { gatedOut = NONE, residual = NONE }: { readonly gatedOut?: number; readonly residual?: number },
): NativeInstruction {
  const gated = gatedOut !== NONE;
  const products: NativeProduct[] = operations.map(({ weight, scale = NONE, bias = NONE, out }) => ({
    weight,
    scale,
    bias,
    out: gated ? NONE : out,
  }));
  return {
    kind: "project",
    input: norm?.input ?? operations[0].input,
    norm: norm?.weight ?? NONE,
    epsilon: norm?.epsilon ?? 0,
    products,
    gated,
    gatedOut,
    residual,
  };
}
