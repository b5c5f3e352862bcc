// Which neighbouring operations a backend may run as one. A group carries its plain operations: they are its meaning,
// the fallback of a backend that does not know its form, and the oracle it is tested against.
// Groups never cross a segment, so loading layer by layer stays possible. Values inside a group have no memory.
// A soft-capped matmul is fused with its norm at most, so that no epilogue needs both a soft-cap and a sum or a gate.

import { type ExpertGroup, expertGroupOutput, type GatedExpertsGroup, matchExperts } from "./expert-fusion.js";
import { type ExpertNetwork, findExpertNetworks, findGatedExperts, networkInputs } from "./expert-network.js";
import { fusableNorm, residualOf, ValueUses, type WeightedRmsNorm } from "./fusion-rules.js";
import { type GatedNormGroup, matchGatedNorm } from "./gated-norm.js";
import { type HeadStoreContext, type HeadStoreGroup, matchHeadStore } from "./head-store.js";
import {
  type LatentQueryGroup,
  type LatentStoreGroup,
  matchLatentQuery,
  matchLatentStore,
  matchRopeConcat,
  type RopeConcatGroup,
} from "./latent-store.js";
import { accessOf, type MemoryAccess, type MemoryPlan, planMemory } from "./memory-plan.js";
import {
  type AddOperation,
  inputsOf,
  type KvWriteOperation,
  type MatmulOperation,
  type Operation,
  outputOf,
  type RopeOperation,
  type GluOperation,
  type ValueId,
} from "./operation.js";
import { kvLayers, type Program } from "./program.js";

export type { WeightedRmsNorm } from "./fusion-rules.js";

/** Matmuls of one input, with the norm before them if no other operation reads its result. */
export interface MatmulsGroup {
  readonly form: "matmuls";
  readonly norm: WeightedRmsNorm | undefined;
  readonly matmuls: readonly MatmulOperation[];
  readonly parts: readonly Operation[];
}

/** activation(gate) × up of one input, with the norm before them if no other operation reads its result. */
export interface GatedMatmulGroup {
  readonly form: "gated-matmul";
  readonly norm: WeightedRmsNorm | undefined;
  readonly gate: MatmulOperation;
  readonly up: MatmulOperation;
  readonly activation: GluOperation;
  readonly parts: readonly Operation[];
}

/** A matmul whose result is added to a residual. */
export interface MatmulAddGroup {
  readonly form: "matmul-add";
  readonly matmul: MatmulOperation;
  readonly residual: ValueId;
  readonly sum: AddOperation;
  readonly parts: readonly Operation[];
}

/** A norm of whole rows whose result is added to a residual. */
export interface NormAddGroup {
  readonly form: "norm-add";
  readonly norm: WeightedRmsNorm;
  readonly residual: ValueId;
  readonly sum: AddOperation;
  readonly parts: readonly Operation[];
}

/** Queries and keys rotated by one table, and the keys stored with their values. */
export interface RopeStoreGroup {
  readonly form: "rope-store";
  readonly query: RopeOperation;
  readonly key: RopeOperation;
  readonly store: KvWriteOperation & { readonly value: ValueId };
  readonly parts: readonly Operation[];
}

export interface SingleGroup {
  readonly form: "single";
  readonly operation: Operation;
  readonly parts: readonly Operation[];
}

export type Group =
  | MatmulsGroup
  | GatedMatmulGroup
  | MatmulAddGroup
  | NormAddGroup
  | RopeStoreGroup
  | HeadGroup
  | SingleGroup;

/** Groups that only backends with `headNorms` are given. */
type HeadGroup = HeadStoreGroup | LatentStoreGroup | LatentQueryGroup | RopeConcatGroup | GatedNormGroup;

export interface FusedProgram {
  readonly program: Program;
  readonly groups: readonly Group[];
  /** Runs of groups that a backend may compute together. */
  readonly experts: readonly ExpertNetwork[];
  /** Groups of gate, up and activation that a backend may compute together, by the first of them. */
  readonly gatedExperts: ReadonlyMap<number, GatedExpertsGroup>;
  /** Scratch memory of the values that pass from one group to another. */
  readonly memory: MemoryPlan;
}

export interface FusionOptions {
  /**
   * Whether norms of heads join rotations and the write to the KV cache: `head-store` in the place of `rope-store`, the
   * groups of latent attention, and norms with the gate after them.
   */
  readonly headNorms?: boolean;
}

export function fuse(program: Program, { headNorms = false }: FusionOptions = {}): FusedProgram {
  const uses = new ValueUses(program);
  const groups = groupSegments(program, (operations) => groupRun(operations, program, uses, headNorms));
  const experts = findExpertNetworks(groups, program, uses);
  const gatedExperts = findGatedExperts(groups, program, uses);
  const memory = planMemory(program.values, groupAccesses(groups, experts), keptValues(program));
  return { program, groups, experts, gatedExperts, memory };
}

/** Groups of all forms: a backend that does not run those of experts as one has `fuse`, where they are plain operations. */
export type AnyGroup = Group | ExpertGroup;

export interface FusedExpertsProgram extends Pick<FusedProgram, "program" | "memory"> {
  readonly groups: readonly AnyGroup[];
}

/** Fuses like `fuse` and joins the operations of experts too. */
export function fuseExperts(program: Program): FusedExpertsProgram {
  const uses = new ValueUses(program);
  const groups = groupSegments(program, (operations) => {
    const found: AnyGroup[] = [];
    for (let index = 0; index < operations.length;) {
      const rest = operations.slice(index);
      const group = matchExperts(rest, program, uses) ?? nextGroup(rest, program, uses, matchRopeStore(rest, uses));
      found.push(group);
      index += group.parts.length;
    }
    return found;
  });
  return { program, groups, memory: planMemory(program.values, groups.map(groupAccess), keptValues(program)) };
}

function keptValues({ hidden, logits }: Program): readonly ValueId[] {
  return logits === undefined ? [hidden] : [hidden, logits];
}

/** Groups never cross a segment. */
function groupSegments<Kind>(
  { segments, operations }: Program,
  groupsOf: (operations: readonly Operation[]) => readonly Kind[],
): readonly Kind[] {
  return segments.flatMap(({ firstOperation, operationCount }) =>
    groupsOf(operations.slice(firstOperation, firstOperation + operationCount)),
  );
}

/**
 * What each group reads and writes; the last group of a network of experts reads what the network does, and attention what
 * the group before it prepared, so that a backend may do that work where it attends.
 */
function groupAccesses(groups: readonly Group[], experts: readonly ExpertNetwork[]): readonly MemoryAccess[] {
  const accesses = groups.map(groupAccess);
  for (const [index, group] of groups.entries()) {
    if (group.form !== "single" || group.operation.kind !== "attention" || index === 0) continue;
    if (groups[index - 1].form !== "head-store") continue;
    const { inputs, outputs } = accesses[index];
    accesses[index] = { inputs: [...inputs, ...accesses[index - 1].inputs], outputs };
  }
  for (const network of experts.flatMap(({ core, ...whole }) => (core === undefined ? [whole] : [whole, core]))) {
    const last = network.firstGroup + network.groupCount - 1;
    const { inputs, outputs } = accesses[last];
    accesses[last] = { inputs: [...inputs, ...networkInputs(network)], outputs };
  }
  return accesses;
}

/** The values of other groups that a group reads, and the values that it leaves to them. */
function groupAccess(group: AnyGroup): MemoryAccess {
  const made = new Set(group.parts.flatMap((part) => outputOf(part) ?? []));
  const inputs = group.parts.flatMap((part) => inputsOf(part)).filter((id) => !made.has(id));
  switch (group.form) {
    case "single":
      return accessOf(group.operation);
    case "matmuls":
      return { inputs, outputs: group.matmuls.map(({ out }) => out) };
    case "gated-matmul":
      return { inputs, outputs: [group.activation.out] };
    case "matmul-add":
    case "norm-add":
      return { inputs, outputs: [group.sum.out] };
    case "rope-store":
      return { inputs, outputs: [group.query.out] };
    case "head-store":
      return { inputs, outputs: group.query === undefined ? [] : [group.query.out] };
    case "latent-store":
      return { inputs, outputs: [] };
    case "rope-concat":
      return { inputs, outputs: [group.concat.out] };
    case "gated-norm":
      return { inputs, outputs: [group.activation.out] };
    case "latent-query":
      return { inputs, outputs: [group.query.concat.out] };
    case "gated-experts":
    case "experts-sum":
      return { inputs, outputs: [expertGroupOutput(group)] };
    default:
      return group satisfies never;
  }
}

function groupRun(
  operations: readonly Operation[],
  program: Program,
  uses: ValueUses,
  headNorms: boolean,
): readonly Group[] {
  const context = {
    layers: kvLayers(program.kv),
    isOnlyReadBy: (id: ValueId, readers: readonly Operation[]) => uses.isOnlyReadBy(id, readers),
    rootOf: uses.rootOf,
  };
  const groups: Group[] = [];
  for (let index = 0; index < operations.length;) {
    const rest = operations.slice(index);
    const stored = headNorms ? matchHeads(rest, program, context) : matchRopeStore(rest, uses);
    const group = nextGroup(rest, program, uses, stored);
    groups.push(group);
    index += group.parts.length;
  }
  return groups;
}

function matchHeads(
  operations: readonly Operation[],
  program: Program,
  context: HeadStoreContext,
): HeadGroup | undefined {
  return (
    matchGatedNorm(operations, program, context.isOnlyReadBy) ??
    matchLatentQuery(operations, context.isOnlyReadBy) ??
    matchLatentStore(operations, context.isOnlyReadBy) ??
    matchRopeConcat(operations, context.isOnlyReadBy) ??
    matchHeadStore(operations, context)
  );
}

/** The group that operations begin with: `stored`, if they begin with a write to the KV cache. */
function nextGroup(rest: readonly Operation[], program: Program, uses: ValueUses, stored: Group | undefined): Group {
  return (
    stored ??
    matchMatmulAdd(rest, uses) ??
    matchNormAdd(rest, program, uses) ??
    matchMatmuls(rest, program, uses) ?? { form: "single", operation: rest[0], parts: [rest[0]] }
  );
}

function matchRopeStore([query, key, store]: readonly Operation[], uses: ValueUses): RopeStoreGroup | undefined {
  if (query?.kind !== "rope" || key?.kind !== "rope" || store?.kind !== "kv-write") return undefined;
  const { value } = store;
  if (value === undefined || query.firstColumn !== undefined) return undefined;
  const alike = (["headWidth", "rotaryWidth", "firstColumn", "style", "rope", "factors"] as const).every(
    (field) => query[field] === key[field],
  );
  const apart = [key.input, value].every((id) => uses.rootOf(id) !== query.out);
  if (!alike || !apart || store.key !== key.out) return undefined;
  if (!uses.isOnlyReadBy(key.out, [store])) return undefined;
  return { form: "rope-store", query, key, store: { ...store, value }, parts: [query, key, store] };
}

function matchMatmulAdd([matmul, sum]: readonly Operation[], uses: ValueUses): MatmulAddGroup | undefined {
  if (matmul?.kind !== "matmul" || sum?.kind !== "add" || matmul.softCap !== undefined) return undefined;
  const residual = residualOf(sum, matmul.out, uses);
  return residual === undefined ? undefined : { form: "matmul-add", matmul, residual, sum, parts: [matmul, sum] };
}

function matchNormAdd([first, sum]: readonly Operation[], program: Program, uses: ValueUses): NormAddGroup | undefined {
  const norm = fusableNorm(first, program);
  if (norm === undefined || sum?.kind !== "add") return undefined;
  const residual = residualOf(sum, norm.out, uses);
  return residual === undefined ? undefined : { form: "norm-add", norm, residual, sum, parts: [first, sum] };
}

function matchMatmuls(
  operations: readonly Operation[],
  program: Program,
  uses: ValueUses,
): MatmulsGroup | GatedMatmulGroup | undefined {
  const [first] = operations;
  const norm = fusableNorm(first, program);
  const start = norm === undefined ? 0 : 1;
  const matmuls: MatmulOperation[] = [];
  for (const operation of operations.slice(start)) {
    if (operation.kind !== "matmul" || (matmuls.length > 0 && operation.input !== matmuls[0].input)) break;
    matmuls.push(operation);
  }
  if (matmuls.length === 0) return undefined;
  if (norm !== undefined && (matmuls[0].input !== norm.out || !uses.isOnlyReadBy(norm.out, matmuls))) return undefined;
  const activation = operations[start + matmuls.length];
  const parts = operations.slice(0, start + matmuls.length);
  return matchGated(norm, matmuls, activation, parts, program, uses) ?? { form: "matmuls", norm, matmuls, parts };
}

function matchGated(
  norm: WeightedRmsNorm | undefined,
  matmuls: readonly MatmulOperation[],
  activation: Operation | undefined,
  parts: readonly Operation[],
  { values }: Program,
  uses: ValueUses,
): GatedMatmulGroup | undefined {
  if (matmuls.length !== 2 || activation?.kind !== "glu") return undefined;
  const gate = matmuls.find(({ out }) => out === activation.gate);
  const up = matmuls.find(({ out }) => out === activation.up);
  if (gate === undefined || up === undefined || gate === up) return undefined;
  if (gate.softCap !== undefined || up.softCap !== undefined) return undefined;
  // A gate of one column is that of a whole row.
  if (values[gate.out].width !== values[up.out].width) return undefined;
  if (!matmuls.every(({ out }) => uses.isOnlyReadBy(out, [activation]))) return undefined;
  return { form: "gated-matmul", norm, gate, up, activation, parts: [...parts, activation] };
}
