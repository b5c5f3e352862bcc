// From a fused program to what runs on the device for a step of a given size, in order. Pure: no device is touched, so
// compiling costs milliseconds and can be tested and printed anywhere.

import { fuse, type FusedProgram, type Group } from "../../../graph/fusion.js";
import type { ExpertNetwork } from "../../../graph/expert-network.js";
import type { Program } from "../../../graph/program.js";
import { packStretches } from "../memory/kv-layout.js";
import { lowerConcat } from "./concat.js";
import { LoweringContext, type GpuLoweringOptions, type LoweringSize } from "./context.js";
import { isDecoding, joinedBefore } from "./decode-attention.js";
import { isFusedNetwork, lowerNetwork } from "./expert-network.js";
import { isGemmNetwork, lowerGemmNetwork } from "./expert-network-gemm.js";
import { isGatedBefore } from "./gated-experts.js";
import { gatedNorm, gluGives } from "./glu.js";
import { slotInput } from "./grouped-gemm.js";
import type { HandedInput, MatmulInput, SlotInput } from "./inputs.js";
import { lowerLatentQuery, lowerLatentStore } from "./latent.js";
import type { HandedRow } from "./gemv.js";
import { MatmulLowering } from "./matmul-groups.js";
import { lowerOperation } from "./operation-table.js";
import { lowerResults } from "./results.js";
import { lowerHeadStore } from "./rope.js";
import { normRows } from "./rows.js";
import { isLaunch, type StepItem } from "./step-item.js";
import { MAX_PANEL_TOKENS, SLAB_COLUMNS } from "./wide-gemm-shape.js";

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
  let handed: HandedInput | undefined;
  /** What it has made ready of single rows for this one's norm. */
  let prepared: HandedRow | undefined;
  const networks = new Map(experts.map((network) => [network.firstGroup, network]));
  for (let index = 0; index < groups.length; index++) {
    const found = networks.get(index);
    const network = [found, found?.core].flatMap((each) => lowerExperts(context, matmuls, each, size)).at(0);
    if (network !== undefined) {
      items.push(...network.items);
      ({ handed } = network);
      prepared = undefined;
      index += network.groupCount - 1;
      continue;
    }
    const group = groups[index];
    const next =
      handedSlots(context, group, index, size) ?? handedOn(context, matmuls, group, groups.at(index + 1), index + 1);
    const following = networks.has(index + 1) ? undefined : groups.at(index + 1);
    const prepares = matmuls.preparedFor(group, handed, following);
    items.push(...lowerGroup(context, matmuls, index, { handed, next, prepared, prepares }));
    handed = next;
    prepared = prepares;
  }
  if (program.logits !== undefined) items.push(...lowerResults(context, program.logits));
  return items.map((item) => (isLaunch(item) ? context.choices.careful(item) : item));
}

interface LoweredExperts {
  readonly items: readonly StepItem[];
  /** What they leave for the group after them. */
  readonly handed: HandedInput | undefined;
  readonly groupCount: number;
}

/** A network of experts as few launches, if steps of this size compute it so. */
function lowerExperts(
  context: LoweringContext,
  matmuls: MatmulLowering,
  network: ExpertNetwork | undefined,
  size: LoweringSize,
): readonly LoweredExperts[] {
  if (network === undefined) return [];
  const { groupCount, firstGroup } = network;
  if (isFusedNetwork(context, network, size))
    return [{ items: lowerNetwork(context, matmuls, network), handed: undefined, groupCount }];
  if (!isGemmNetwork(context, network, size)) return [];
  const next = context.options.fused.groups.at(firstGroup + groupCount);
  return [{ ...lowerGemmNetwork(context, matmuls, network, next), groupCount }];
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
  return gives(context, matmuls, group, form) ? matmuls.handedPlace(form, context.values[out]) : undefined;
}

/** Where attention leaves its heads for a matmul of one matrix a head, such as the next group, that is its only reader. */
function handedSlots(context: LoweringContext, group: Group, index: number, size: LoweringSize): SlotInput | undefined {
  const { groups } = context.options.fused;
  const next = groups.at(index + 1);
  if (group.form !== "single" || group.operation.kind !== "attention") return undefined;
  if (next?.form !== "single" || next.operation.kind !== "grouped-matmul") return undefined;
  const { out, heads, valueWidth } = group.operation;
  const { input, slots, inputStride } = next.operation;
  const isOfHeads = input === out && slots === heads && inputStride === valueWidth;
  if (!isOfHeads || !context.isOnlyReadBy(out, index + 1)) return undefined;
  if (joinedBefore(context, groups[index - 1], group, index) !== undefined) return undefined;
  const wanted = slotInput(context, next.operation, size);
  return wanted?.stride === valueWidth ? wanted : undefined;
}

function outOf(group: Group): number | undefined {
  if (group.form === "gated-matmul" || group.form === "gated-norm") return group.activation.out;
  if (group.form !== "single") return undefined;
  const { operation } = group;
  return operation.kind === "attention" || operation.kind === "glu" ? operation.out : undefined;
}

/** Whether a group can leave its result in this form. */
function gives(context: LoweringContext, matmuls: MatmulLowering, group: Group, form: MatmulInput["form"]): boolean {
  if (group.form === "gated-matmul") return matmuls.gatedGives(group, form);
  if (form === "panels") return attentionGivesPanels(context, group);
  if (group.form === "gated-norm") return true;
  if (group.form !== "single") return false;
  const { operation } = group;
  if (operation.kind === "glu") return gluGives(context, operation);
  // Quantized rows take heads of whole blocks.
  return operation.kind === "attention" && (form !== "quantized" || operation.valueWidth % 32 === 0);
}

/** Kernels compute tiles from the step's tokens: where those are split into turns, each must begin with whole tiles. */
function attentionGivesPanels({ values, regions, options }: LoweringContext, group: Group): boolean {
  const { tokens } = regions.attention;
  return (
    group.form === "single" &&
    group.operation.kind === "attention" &&
    values[group.operation.out].width % SLAB_COLUMNS === 0 &&
    (tokens % MAX_PANEL_TOKENS === 0 || tokens >= options.limits.maxTokens)
  );
}

/** What passes between a group and its neighbours beside values. */
interface Handing {
  readonly handed: HandedInput | undefined;
  readonly next: HandedInput | undefined;
  readonly prepared: HandedRow | undefined;
  readonly prepares: HandedRow | undefined;
}

function lowerGroup(
  context: LoweringContext,
  matmuls: MatmulLowering,
  index: number,
  { handed: left, next, prepared, prepares }: Handing,
): readonly StepItem[] {
  const { groups } = context.options.fused;
  const group = groups[index];
  const wanted = next?.form === "slots" ? undefined : next;
  const [handed, slots] = left?.form === "slots" ? [undefined, left] : [left, undefined];
  switch (group.form) {
    case "matmuls":
      return matmuls.project(group, handed, prepared);
    case "matmul-add":
      return matmuls.projectAdd(group, handed, prepares);
    case "gated-matmul":
      return matmuls.gated(group, handed, wanted, prepared);
    case "norm-add":
      return [normRows(context, { ...group.norm, out: group.sum.out }, group.residual)];
    case "head-store": {
      const isJoined = joinedBefore(context, group, groups.at(index + 1), index + 1) !== undefined;
      return [lowerHeadStore(context, group, (size) => !isJoined || !isDecoding(context, size))];
    }
    case "latent-store":
      return [lowerLatentStore(context, group)];
    case "latent-query":
      return lowerLatentQuery(context, matmuls, group, index);
    case "rope-concat":
      return [lowerConcat(context, group.concat, group.rope)];
    case "gated-norm":
      return [gatedNorm(context, group, wanted)];
    case "rope-store":
      throw new TypeError("the program was not fused for a GPU");
    case "single":
      if (isGatedBefore(context, index, matmuls.size)) return [];
      return lowerOperation(context, group.operation, { groupIndex: index, matmuls, wanted: next, slots });
    default:
      return group satisfies never;
  }
}
