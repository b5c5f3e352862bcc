// From a fused program to what runs on the device for a step of a given size, in order. Pure: no device is touched, so
// compiling costs milliseconds and can be tested and printed anywhere.

import { fuse, type FusedProgram, type Group } from "../../../graph/fusion.js";
import type { Program } from "../../../graph/program.js";
import { packStretches } from "../memory/kv-layout.js";
import { lowerConcat } from "./concat.js";
import { LoweringContext, type GpuLoweringOptions, type LoweringSize } from "./context.js";
import { isDecoding, joinedBefore } from "./decode-attention.js";
import { isFusedNetwork, lowerNetwork } from "./expert-network.js";
import { isGemmNetwork, lowerGemmNetwork } from "./expert-network-gemm.js";
import { isGatedBefore } from "./gated-experts.js";
import type { MatmulInput } from "./inputs.js";
import { lowerLatentStore } from "./latent.js";
import { MatmulLowering } from "./matmul-groups.js";
import { lowerOperation } from "./operation-table.js";
import { lowerResults } from "./results.js";
import { lowerHeadStore } from "./rope.js";
import { normRows } from "./rows.js";
import type { StepItem } from "./step-item.js";

/** The groups that the kernels compute. */
export function fuseForGpu(program: Program): FusedProgram {
  return fuse(program, { headNorms: true });
}

export function createContext(options: GpuLoweringOptions): LoweringContext {
  const tables = options.fused.program.ropes.map(({ stretches }) => packStretches(stretches));
  const floats = new Float32Array(tables.reduce((sum, { length }) => sum + length, 0));
  const starts: number[] = [];
  let end = 0;
  for (const table of tables) {
    starts.push(end);
    floats.set(table, end);
    end += table.length;
  }
  return new LoweringContext(options, { floats, stretches: starts });
}

export function lowerStep(context: LoweringContext, size: LoweringSize): readonly StepItem[] {
  const { groups, experts, program } = context.options.fused;
  const matmuls = new MatmulLowering(context, size);
  const items: StepItem[] = [];
  /** What the group before has left for this one. */
  let handed: MatmulInput | undefined;
  const networks = new Map(experts.map((network) => [network.firstGroup, network]));
  for (let index = 0; index < groups.length; index++) {
    const network = networks.get(index);
    if (network !== undefined && isFusedNetwork(context, network, size)) {
      items.push(...lowerNetwork(context, matmuls, network));
      handed = undefined;
      index += network.groupCount - 1;
      continue;
    }
    if (network !== undefined && isGemmNetwork(context, network, size)) {
      items.push(...lowerGemmNetwork(context, matmuls, network));
      handed = undefined;
      index += network.groupCount - 1;
      continue;
    }
    const group = groups[index];
    const next = handedOn(context, matmuls, group, groups.at(index + 1), index + 1);
    items.push(...lowerGroup(context, matmuls, index, handed, next));
    handed = next;
  }
  return program.logits === undefined ? items : [...items, ...lowerResults(context, program.logits)];
}

/**
 * Where this group leaves its result if the next one is its only reader and wants it in a form that this one can make.
 */
function handedOn(
  context: LoweringContext,
  matmuls: MatmulLowering,
  group: Group,
  next: Group | undefined,
  nextIndex: number,
): MatmulInput | undefined {
  const out = outOf(group);
  if (next === undefined || out === undefined || !context.isOnlyReadBy(out, nextIndex)) return undefined;
  const form = matmuls.wantedForm(next);
  if (form === undefined) return undefined;
  const gives = group.form === "gated-matmul" ? matmuls.gatedGives(group, form) : attentionGives(group, form);
  return gives ? matmuls.handedPlace(form, context.values[out]) : undefined;
}

function outOf(group: Group): number | undefined {
  if (group.form === "gated-matmul") return group.activation.out;
  return group.form === "single" && group.operation.kind === "attention" ? group.operation.out : undefined;
}

/** Quantized rows take heads of whole blocks. */
function attentionGives(group: Group, form: MatmulInput["form"]): boolean {
  if (group.form !== "single" || group.operation.kind !== "attention") return false;
  return form !== "quantized" || group.operation.valueWidth % 32 === 0;
}

function lowerGroup(
  context: LoweringContext,
  matmuls: MatmulLowering,
  index: number,
  handed: MatmulInput | undefined,
  next: MatmulInput | undefined,
): readonly StepItem[] {
  const { groups } = context.options.fused;
  const group = groups[index];
  switch (group.form) {
    case "matmuls":
      return matmuls.project(group, handed);
    case "matmul-add":
      return matmuls.projectAdd(group, handed);
    case "gated-matmul":
      return matmuls.gated(group, handed, next);
    case "norm-add":
      return [normRows(context, { ...group.norm, out: group.sum.out }, group.residual)];
    case "head-store": {
      const isJoined = joinedBefore(context, group, groups.at(index + 1), index + 1) !== undefined;
      return [lowerHeadStore(context, group, (size) => !isJoined || !isDecoding(context, size))];
    }
    case "latent-store":
      return [lowerLatentStore(context, group)];
    case "rope-concat":
      return [lowerConcat(context, group.concat, group.rope)];
    case "rope-store":
      throw new TypeError("the program was not fused for a GPU");
    case "single":
      if (isGatedBefore(context, index, matmuls.size)) return [];
      return lowerOperation(context, group.operation, { groupIndex: index, matmuls, wanted: next });
    default:
      return group satisfies never;
  }
}
